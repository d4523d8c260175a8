package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Clients name the files of their tables, anywhere below a storage root, and have them
// read and deleted. Therefore no root may hold a file of the server itself, by whatever
// links and spellings, and no file may be reached by two roots.

// ownFile is what no storage root may hold.
type ownFile struct{ what, path string }

// ownFiles lists what the server reads and writes besides tables. Of the data folder
// they are named one by one too: a root may lie in that folder, as DATA/warehouse does.
func (s *Settings) ownFiles() []ownFile {
	files := []ownFile{
		{"the data folder", s.Data},
		{"the lock of the data folder", s.Path(lockName)},
		{"the address file", s.Path(addressName)},
		{"the key file", s.Path(secretName)},
		{"the admin token", s.AdminTokenPath()},
	}
	if path, ok := strings.CutPrefix(s.DatabaseURL(), "sqlite:"); ok && path != "" {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal", ".lock"} {
			files = append(files, ownFile{"the database", path + suffix})
		}
	}
	for _, f := range []ownFile{{"the configuration", s.Config}, {"the key file", s.SecretKeyFile}, {"the certificate", s.TLSCertFile}, {"the certificate's key", s.TLSKeyFile}} {
		if f.path != "" {
			files = append(files, f)
		}
	}
	return files
}

// apart checks the local storage roots; the settings are valid one by one.
func (v *validator) apart(s *Settings) {
	type root struct{ key, name, dir string } // dir is the name with its links resolved
	var roots []root
	add := func(key string, p place, err error) {
		if err != nil || p.bucket != nil {
			return
		}
		name := pathOf(p.root)
		dir, err := resolve(name)
		if err != nil {
			v.bad(key, "%w", err)
			return
		}
		roots = append(roots, root{key, name, dir})
	}
	p, err := s.storagePlace()
	add("storage", p, err)
	for _, where := range s.Warehouse.AllowedLocations {
		p, err := s.allowedPlace(where)
		add("warehouse.allowed-locations", p, err)
	}
	p, err = s.drivePlace()
	add("drive-storage", p, err)
	for i, r := range roots {
		for _, f := range s.ownFiles() {
			held, err := reaches(r.dir, f.path)
			if err != nil {
				v.bad(r.key, "%w", err)
			} else if held {
				v.bad(r.key, "%s holds %s %s: clients could name it as a file of a table", r.name, f.what, f.path)
				break
			}
		}
		for _, other := range roots[:i] {
			if holds(r.dir, other.dir) || holds(other.dir, r.dir) {
				v.bad(r.key, "%s and %s overlap", r.name, other.name)
			}
		}
	}
}

// reaches reports whether a path names something in the directory root, or leads into
// it by a link.
func reaches(root, path string) (bool, error) {
	end, err := resolve(path)
	if err != nil {
		return false, err
	}
	folder, err := resolve(filepath.Dir(path))
	return holds(root, end) || holds(root, filepath.Join(folder, filepath.Base(path))), err
}

// holds reports whether a path is the directory root or lies in it: by its name, or
// because a directory above it is the same one, as with bind mounts and with file
// systems that do not tell upper case from lower.
func holds(root, path string) bool {
	at, err := os.Stat(root)
	for {
		if path == root {
			return true
		}
		if err == nil {
			if above, err := os.Stat(path); err == nil && os.SameFile(at, above) {
				return true
			}
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

// resolve follows the links of a path, of which the end need not exist yet.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return resolveAbs(abs, 40) // as many links as Linux follows
}

func resolveAbs(abs string, links int) (string, error) {
	if whole, err := filepath.EvalSymlinks(abs); err == nil {
		return whole, nil
	}
	up := filepath.Dir(abs)
	if up == abs {
		return abs, nil
	}
	parent, err := resolveAbs(up, links)
	if err != nil {
		return "", err
	}
	abs = filepath.Join(parent, filepath.Base(abs))
	target, err := os.Readlink(abs)
	if err != nil {
		return abs, nil //nolint:nilerr // it is no link, and need not be there
	}
	if links == 0 {
		return "", fmt.Errorf("%s: too many links", abs)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(parent, target)
	}
	return resolveAbs(target, links-1)
}

// apartDir refuses a directory as the storage root of another warehouse: a link, since
// it may lead elsewhere tomorrow, and what holds a file of the server or overlaps the
// default warehouse or the drive. That it is apart from other warehouses' is asked in the database.
func (s *Settings) apartDir(dir string) error {
	end, err := resolve(dir)
	if err != nil {
		return err
	}
	if end != dir {
		return fmt.Errorf("%s leads by a link to %s: name that", dir, end)
	}
	for _, f := range s.ownFiles() {
		held, err := reaches(dir, f.path)
		if err != nil {
			return err
		}
		if held {
			return fmt.Errorf("%s holds a file of the server, %s: clients could name it as a file of a table", dir, f.what)
		}
	}
	own, err := s.ownPlaces()
	if err != nil {
		return err
	}
	for _, p := range own {
		if p.bucket != nil {
			continue
		}
		other, err := resolve(pathOf(p.root))
		if err != nil {
			return err
		}
		if holds(dir, other) || holds(other, dir) {
			return fmt.Errorf("%s overlaps the storage of the default warehouse or of the drive", dir)
		}
	}
	return nil
}

// ownPlaces are those that the settings name.
func (s *Settings) ownPlaces() (out []place, err error) {
	add := func(p place, placeErr error) {
		out, err = append(out, p), errors.Join(err, placeErr)
	}
	add(s.storagePlace())
	add(s.drivePlace())
	for _, where := range s.Warehouse.AllowedLocations {
		add(s.allowedPlace(where))
	}
	return out, err
}
