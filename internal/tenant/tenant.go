// Package tenant knows who asks and what is theirs: tenants, their warehouses with
// storage, credentials and table properties, and principals.
//
// The Directory is the way to a warehouse. It reads the database, keeps what it read for
// a moment (Config.Recheck), and opens storage when it is first asked for, so that every
// server on the database sees a new or changed warehouse within that moment; a change by
// this server shows at once.
//
// Invariants:
//   - Storage roots and allowed locations of all warehouses of all tenants are disjoint:
//     each stands in storage_claims, checked and written under one lock (lockClaims).
//   - Stored credentials are sealed under tenant and warehouse; a server that cannot open
//     every one of them does not start. They are in no error, no log and no answer.
//   - A warehouse row is the lock that serialises explicit locations in the catalog, so
//     it belongs to the transactions of that room as well; nobody else writes it.
//
// Lock order: claims → warehouse → what Guard locks.
package tenant

import (
	"embed"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "tenant", Files: files}

// ID is the key of a tenant.
type ID int64

// WarehouseID is the key of a warehouse.
type WarehouseID int64

// Default is the name of the tenant and of the warehouse that always exist.
const Default = "default"

// The codes of this room's errors.
const (
	CodeNoSuchWarehouse fault.Code = "NoSuchWarehouse"
	CodeWarehouseExists fault.Code = "WarehouseExists"
	CodeBadWarehouse    fault.Code = "BadWarehouse"      // a request that cannot work
	CodeStorageTaken    fault.Code = "StorageTaken"      // overlaps another warehouse's storage
	CodeDefault         fault.Code = "DefaultWarehouse"  // the settings decide about the default one
	CodeInUse           fault.Code = "WarehouseNotEmpty" // tables, views or unsettled jobs
	CodeStorageTrouble  fault.Code = "StorageTrouble"    // it cannot be opened
)
