// Package imports holds the test of who may import whom. The drawing is in docs/ARCHITECTURE.md.
package imports
