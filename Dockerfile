# docker build -t flopwise . && docker run --rm -v "$PWD:/models:ro" flopwise profile model.onnx
FROM python:3.13-slim
ARG EXTRAS=gguf,h5,arrow,symbolic
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN pip install --no-cache-dir "/source[$EXTRAS]" && rm -rf /source
WORKDIR /models
USER 65534
ENTRYPOINT ["flopwise"]
CMD ["--help"]
