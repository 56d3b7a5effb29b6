# $title
FROM $base AS python
${root}RUN export DEBIAN_FRONTEND=noninteractive \
    && apt-get update \
    && apt-get install -y --no-install-recommends python$python=$python.* python$python-venv=$python.* \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache /var/log/apt /var/log/*.log

FROM python AS build
ARG SOURCE_DATE_EPOCH=$created
ENV PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0
COPY requirements.txt tidy.py sbom.cdx.json /build/
RUN ${mounts}python$python -m venv /opt/cupy \
    && /opt/cupy/bin/python -m pip install$cache --progress-bar off --no-compile --no-deps --only-binary :all: --require-hashes -r /build/requirements.txt \
    && /opt/cupy/bin/python -I /build/tidy.py /opt/cupy /rootfs

FROM python
COPY --from=build /rootfs/ /
ENV PATH="/opt/cupy/bin:$${PATH}" \
    HOME=/home/cupy \
    CUPY_CACHE_DIR=/home/cupy/.cupy/kernel_cache \
    PIP_NO_CACHE_DIR=1$libraries
$labels
WORKDIR /home/cupy
USER 10001:10001
STOPSIGNAL SIGINT
CMD ["python"]
