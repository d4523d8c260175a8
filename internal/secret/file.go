package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Load reads a ring from a file. A missing file is fs.ErrNotExist.
func Load(path string) (*Ring, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("secret: read the key file: %w", err)
	}
	r, err := Parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return r, nil
}

// LoadOrMake is Load of a file that is made with one new key when it is missing. Its
// mode is 0600. The file appears whole or not at all, and never replaces another: of
// several who make it at once, all read the same one.
func LoadOrMake(path string) (r *Ring, made bool, err error) {
	r, err = Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, false, err
	}
	if err := makeFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, false, fmt.Errorf("secret: make the key file: %w", err)
	} else if err == nil {
		made = true
	}
	r, err = Load(path)
	return r, made, err
}

func makeFile(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // its mode is 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString("# Keys of stored credentials: the first one encrypts, all decrypt. Keep a copy apart\n# from the backups of the database.\n" + NewKey() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename it replaces nothing
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close()) // a key that a crash takes away takes all credentials along
}
