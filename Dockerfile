# The image is the static binary and nothing else: no shell, no package manager, not root.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION
RUN make build VERSION=$VERSION && mkdir -p -m 0700 /state/katsubushi

FROM scratch
COPY --from=build /src/bin/katsubushi /katsubushi
# The state directory by default; see docs/OPERATING.md on naming the volume.
COPY --from=build --chown=65532:65532 /state /var/lib
ENV XDG_STATE_HOME=/var/lib
VOLUME /var/lib/katsubushi
USER 65532:65532
EXPOSE 11212
# The check takes its address from the same environment as the daemon: set PORT or SOCK there, not as flags, when you change them.
HEALTHCHECK --interval=10s --timeout=4s --start-period=5s CMD ["/katsubushi", "healthcheck"]
ENTRYPOINT ["/katsubushi"]
