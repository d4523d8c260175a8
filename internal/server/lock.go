package server

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrDataLocked is returned by Run for a data folder that another server holds.
var ErrDataLocked = errors.New("another server holds the data folder")

// addressName is the file of the data folder with the address of the server that runs.
const addressName = "address"

// lockName is the file of the data folder whose lock says that a server runs on it. It
// stays when the server ends: removing it could take it from under the next one.
const lockName = "lock"

// lockData takes the data folder for as long as this process lives, or until release.
func lockData(set *Settings) (release func() error, err error) {
	f, err := os.OpenFile(set.Path(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server: data folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f.Close, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("server: %w %s: give each its own, or stop the other", ErrDataLocked, set.Data)
	} else {
		err = fmt.Errorf("server: lock the data folder %s: %w", set.Data, err)
	}
	return nil, errors.Join(err, f.Close())
}
