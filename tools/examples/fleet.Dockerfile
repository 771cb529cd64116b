# An image whose program never compiles: the kernels are built in one stage, which has NVRTC, and
# served from a read-only bundle in the next, which has neither toolkit nor compiler.
#   docker build -f tools/examples/fleet.Dockerfile .          from the root of a clone
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends git ca-certificates sudo
COPY . /src
WORKDIR /src
# setup.sh installs the compiler and the libraries, and NVRTC as wheels.
RUN cuda=$(tools/setup.sh) && cmake --preset release -DTILEC_CUDA_INCLUDE_DIR="${cuda%|*}" \
 && cmake --build --preset release --target tilec_command example_record_build_require \
 && export TILEC_NVRTC="${cuda#*|}" TILEC_CACHE_DIR=/tmp/kernels \
 && printf '{"op": "gemm", "M": [1, 16, 128], "N": 256, "K": 64, "dtype": "f16"}\n' > app.jsonl \
 && build/release/tools/tilec/tilec build app.jsonl --arch sm_80,sm_90 \
 && build/release/tools/tilec/tilec cache export /app.bundle

FROM debian:12
COPY --from=build /src/build/release/tools/examples/example_record_build_require /usr/local/bin/app
# Root's file, readable by all: served to any user, also a random one.
COPY --from=build --chown=0:0 --chmod=644 /app.bundle /opt/app/app.bundle
ENV TILEC_CACHE_BUNDLES=/opt/app/app.bundle TILEC_CACHE_POLICY=must_hit
USER 12345:0
CMD ["app"]
