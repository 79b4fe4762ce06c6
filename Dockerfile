# The image is the static binary and the certificate authorities, nothing else: no shell, no package manager, not root.
# The build stage runs on the builder's own platform and cross-compiles for the target's.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION COMMIT
# Git knows the commit. Where the context has no .git, or that of a worktree, which leads nowhere, the build argument says it.
RUN git rev-parse -q --verify HEAD >/dev/null 2>&1 || export GOFLAGS=-buildvcs=false; \
    GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION COMMIT=$COMMIT && mkdir -p -m 0700 /state/katsubushi

FROM scratch
# For rediss://, etcds:// and others with certificates of public authorities. More of them may be mounted beside this file.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/bin/katsubushi /katsubushi
# The state directory by default; see docs/CONTAINERS.md on naming the volume.
COPY --from=build --chown=65532:65532 /state /var/lib
ENV XDG_STATE_HOME=/var/lib
VOLUME /var/lib/katsubushi
USER 65532:65532
EXPOSE 11212
STOPSIGNAL SIGTERM
# The check takes its address from the same environment as the daemon: set PORT or SOCK there, not as flags, when you change them.
HEALTHCHECK --interval=10s --timeout=4s --start-period=5s CMD ["/katsubushi", "healthcheck"]
ENTRYPOINT ["/katsubushi"]
ARG VERSION COMMIT CREATED
LABEL org.opencontainers.image.title="katsubushi" \
      org.opencontainers.image.description="Hands out unique, roughly time-ordered 64-bit ids over memcached's and Redis's protocols" \
      org.opencontainers.image.source="https://github.com/katsubushi/katsubushi" \
      org.opencontainers.image.documentation="https://github.com/katsubushi/katsubushi/blob/main/docs/CONTAINERS.md" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.created="$CREATED"
