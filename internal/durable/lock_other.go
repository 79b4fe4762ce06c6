//go:build !windows && (!unix || solaris || aix)

package durable

import (
	"errors"
	"os"
)

// lock is not to be had here: nothing finds a second process.
func lock(*os.File) error { return nil }

// SyncDir implements Disk, as far as it is to be had here.
func (OS) SyncDir(string) error { return nil }

// errQuota: there is no such error here.
var errQuota = errors.New("quota exceeded")

// noFollow is not to be had here.
const noFollow = 0

// giveToOwner does nothing here.
func giveToOwner(string, func(uid, gid int) error) {}

func ownership(string) string { return "" }
