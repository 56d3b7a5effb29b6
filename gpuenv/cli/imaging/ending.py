"""How ``gpuenv build-image`` ends early: what was left undone is said, in text and in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError, failure_as_result, with_stand
from gpuenv.cli.installer import command_error
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.image.records import ImageOutcome


@contextmanager
def ending(out: Output, *, building: bool) -> Iterator[None]:
    """Makes whatever ends early in here the command's outcome.

    Args:
        out: where and how it is shown.
        building: whether an image was to come of it, rather than a plan.

    Raises:
        CommandError: with the exit code of what ended it.
    """
    from gpuenv.image.choose import NoImageError
    from gpuenv.image.errors import EngineError
    from gpuenv.image.locking import NoWheelsError
    from gpuenv.image.render import RenderError
    from gpuenv.install.errors import InstallError

    left = "nothing was built, and no name was changed" if building else ""
    with failure_as_result(out, _outcome):
        try:
            yield
        except (NoImageError, NoWheelsError) as error:
            raise CommandError(ExitCode.NOTHING_FITS, with_stand(str(error), left)) from error
        except RenderError as error:
            raise CommandError(ExitCode.USAGE, str(error)) from error
        except EngineError as error:
            raise CommandError(ExitCode.FAILED, with_stand(error.message, left), error.remedy) from error
        except InstallError as error:
            told = command_error(error)
            raise CommandError(told.exit_code, with_stand(told.message, left), told.remedy) from error


def _outcome(error: CommandError) -> ImageOutcome:
    from gpuenv.image.records import Built, ImageOutcome

    return ImageOutcome(Built.FAILED, error.exit_code, error.message, (), None, error.remedy)
