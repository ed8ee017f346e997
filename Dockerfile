# The service on a CPU, without root; models are mounted at /models: docs/how-to/deploy.md
FROM python:3.11-slim

# the address of the packages of PyTorch for a CPU; without it pip takes the build with CUDA, several gigabytes more
ARG TORCH_INDEX=""

WORKDIR /app
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY conf conf
COPY forecast forecast
# the versions are those of constraints.txt
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch \
    && pip install --no-cache-dir --constraint constraints.txt ".[serve,excel]"

USER 10001
WORKDIR /models
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=90s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["forecast", "serve", "--host", "0.0.0.0"]
CMD ["--run", "/models/run"]
