"""A transform that cuFFT can make no plan for."""

WHY = (
    "cuFFT plans a transform before it runs one: a length that it does not take, or a workspace that does not fit into"
    " the GPU's memory, fails there. Look at the lengths first; make large batches smaller."
)


def mistake(cp):
    """The last piece of a signal that was cut up is empty."""
    from cupy.cuda import cufft

    pieces, kind = [cp.ones(8, "F"), cp.ones(0, "F")], cufft.CUFFT_C2C
    try:
        plans = [cufft.Plan1d(piece.size, kind, 1) for piece in pieces]
    except cufft.CuFFTError as error:
        return "CuFFTError: %s" % error, False
    return "%d plans were made" % len(plans), True


def cure(cp):
    """Empty pieces are left out."""
    from cupy.cuda import cufft

    pieces, kind = [cp.ones(8, "F"), cp.ones(0, "F")], cufft.CUFFT_C2C
    answers = []
    for piece in pieces:
        if piece.size:
            plan = cufft.Plan1d(piece.size, kind, 1)
            answer = cp.empty_like(piece)
            plan.fft(piece, answer, cufft.CUFFT_FORWARD)
            answers.append(answer)
    first = float(answers[0][0].real)
    return "the first number of the spectrum is %g" % first, first == 8.0
