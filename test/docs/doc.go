// Package docs holds the tests of what README.md and docs/ say: the commands run and print what is
// shown, flags and names exist, and links lead somewhere. CONTRIBUTING.md says how to write a block
// of commands.
package docs
