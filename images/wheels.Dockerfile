# $title
FROM $base AS build
${root}ARG SOURCE_DATE_EPOCH=$created
ENV PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0
COPY requirements.txt tidy.py sbom.cdx.json /build/
RUN ${mounts}python3 -m venv /opt/cupy \
    && /opt/cupy/bin/python -m pip install$cache --progress-bar off --no-compile --no-deps --only-binary :all: --require-hashes -r /build/requirements.txt \
    && /opt/cupy/bin/python -I /build/tidy.py /opt/cupy /rootfs

FROM $base
COPY --from=build /rootfs/ /
ENV PATH="/opt/cupy/bin:$${PATH}" \
    HOME=/home/cupy \
    CUPY_CACHE_DIR=/home/cupy/.cupy/kernel_cache \
    PIP_NO_CACHE_DIR=1$libraries \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    NVIDIA_REQUIRE_CUDA="$admits"
$labels
WORKDIR /home/cupy
USER 10001:10001
STOPSIGNAL SIGINT
CMD ["python"]
