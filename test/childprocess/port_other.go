//go:build !linux

package childprocess

// reserve does nothing: other systems have no names that end with their process.
func reserve(int) (release func(), ok bool) { return func() {}, true }
