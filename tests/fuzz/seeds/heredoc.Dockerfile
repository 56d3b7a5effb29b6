FROM python:3.12-slim
COPY requirements.txt .
RUN --mount=type=cache,target=/root/.cache <<EOF
pip install --no-cache-dir 'cupy-cuda12x[ctk]==14.2.0' \
  torch>=2.9
EOF
CMD ["python", "-c", "import cupy"]
