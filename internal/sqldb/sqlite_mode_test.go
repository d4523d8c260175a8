package sqldb_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Nobody else on the machine reads the database, whatever the mode of its folder.
func TestSQLiteIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lethe.db")
	db, err := sqldb.Open(t.Context(), "sqlite:"+path, sqldb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Migrate(t.Context(), things); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("lethe.db%s: %v, %v; want mode 0600", suffix, info, err)
		}
	}
}
