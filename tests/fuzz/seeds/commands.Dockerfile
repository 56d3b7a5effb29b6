FROM ubuntu:24.04
RUN apt-get update && apt-get install -y nvidia-driver-550 cuda-toolkit-12-4; conda install cupy
RUN if [ -f x ]; then uv pip install cupy; fi && python -c "import cupy; cupy.zeros(1)"
