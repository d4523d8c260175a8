package server

import (
	"fmt"
	"os"

	"github.com/lethe-project/lethe/internal/secret"
)

// SecretKeyVariable is the environment variable with the keys of stored credentials.
const SecretKeyVariable = "LETHE_SECRET_KEY" //nolint:gosec // the name, not the key

// secretName is the key file of the data folder.
const secretName = "secret.key"

// openKeys reads the keys: from the environment, else from the file that a setting names
// (which must be there: a wrong path must not become a new key), else from the data
// folder, where a file is made once.
func (s *server) openKeys() (*secret.Ring, error) {
	if text, ok := s.cfg.Lookup(SecretKeyVariable); ok && text != "" {
		keys, err := secret.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("server: %s: %w", SecretKeyVariable, err)
		}
		return keys, nil
	}
	path := s.set.SecretKeyFile
	if path == "" {
		path = s.set.Path(secretName)
		keys, made, err := secret.LoadOrMake(path)
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		if made {
			s.log.Info("key file made", "path", path, "key", string(keys.Current()))
			return keys, nil
		}
		s.warnReadable(path)
		return keys, nil
	}
	keys, err := secret.Load(path)
	if err != nil {
		return nil, fmt.Errorf("server: setting secret-key-file: %w", err)
	}
	s.warnReadable(path)
	return keys, nil
}

// warnReadable tells of a key file that everybody on the machine can read. Where it is
// mounted that may be on purpose.
func (s *server) warnReadable(path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		s.log.Warn("everybody can read the key file", "path", path, "mode", info.Mode().Perm().String())
	}
}
