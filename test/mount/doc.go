// Package mount gives tests small file systems of their own.
package mount
