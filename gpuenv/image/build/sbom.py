"""The bill of materials of an image: every wheel with its digests, as CycloneDX."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timezone

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from gpuenv import __version__
from gpuenv.image.build.plan import Choice
from gpuenv.image.labels import LEFT_OUT, LEFT_OUT_FILES
from gpuenv.install.plan import Pin

_NAMESPACE = uuid.UUID("6d0c7a1e-6a0e-5b0c-9d8e-2f6d6a0b7c11")  # an arbitrary one, for the serial number of the bill


def bill(choice: Choice, pins: Iterable[Pin], lock: str, created: int) -> str:
    """The bill in JSON, of a time in seconds since 1970; the same for the same digest of the lock file."""
    image = Component(name=choice.name, type=ComponentType.CONTAINER, bom_ref="image", version=lock)
    image.properties.update(Property(name=LEFT_OUT, value=entry) for entry in LEFT_OUT_FILES)
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, f"{choice.name}/{choice.platform}/{lock}"))
    bom.metadata.timestamp = datetime.fromtimestamp(created, timezone.utc)
    bom.metadata.component = image
    bom.metadata.tools.components.add(
        Component(name="gpuenv", version=__version__, type=ComponentType.APPLICATION, bom_ref="gpuenv")
    )
    for pin in pins:
        purl = PackageURL("pypi", None, pin.name, pin.release)
        digests = pin.sha256 if len(pin.sha256) == 1 else ()  # of several wheels, which one is installed is unknown
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in digests]
        part = Component(name=pin.name, version=pin.release, purl=purl, hashes=hashes, bom_ref=str(purl))
        bom.components.add(part)
        bom.register_dependency(image, [part])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
