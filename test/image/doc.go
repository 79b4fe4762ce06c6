// Package image builds the Dockerfile with podman and runs what it has made with crun, in networks of its
// own. It needs root, and runs only if it is asked for: make test-image.
package image
