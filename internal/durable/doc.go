// Package durable keeps a small record in a file so that it survives crashes, power cuts, torn writes
// and disk errors.
//
// A file holds two copies of one record, each a page of text with a generation and a checksum. At any
// moment at least one copy is whole: a writer either replaces the file by a new one, or it writes one
// copy, syncs it, and only then writes the other. What a write was synced for may be relied upon once
// the write has returned without an error; after an error it may have happened or not.
//
// What is not promised: anything on a file system that forgets what it has synced (see Disk.Prepare),
// or when the file is replaced by an older one from outside. Owners of a file exclude each other with a
// lock (File.Lock); the package checks it where the owner says, but does not take it.
package durable
