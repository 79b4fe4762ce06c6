// Package page tests the status page of a real daemon in a real browser, headless Chromium: what it
// shows with and without JavaScript, light, dark and narrow, and while a lease is not extended. It is a
// module of its own, so that the daemon's go.mod has nothing of a browser's. `make test-page` runs it and
// leaves screenshots in bin/page.
package page
