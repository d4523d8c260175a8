package server

import "github.com/lethe-project/lethe/internal/sqldb"

// Owners lists the schemas of this release.
func Owners() []sqldb.Migrations { return owners() }

// Release makes the server one whose schemas are these.
func (c *Config) Release(schemas []sqldb.Migrations) { c.migrations = schemas }

// DrivePlace is where the settings say that the contents of drives lie.
func DrivePlace(s Settings) string {
	p, err := s.drivePlace()
	if err != nil {
		return err.Error()
	}
	return string(p.root)
}
