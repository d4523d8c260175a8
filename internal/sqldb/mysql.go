package sqldb

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// mysqlDialect is the dialect of MySQL, MariaDB and TiDB. TiDB parses LOCK IN SHARE MODE
// and locks nothing, so a shared lock is an exclusive one there.
func mysqlDialect(tidb bool) *Dialect {
	share := "LOCK IN SHARE MODE" // MariaDB has no FOR SHARE
	if tidb {
		share = "FOR UPDATE"
	}
	return &Dialect{
		// From 1,000 items on MariaDB turns a list into a temporary table.
		Name: MySQL, MaxList: 500, MaxInsert: 500, quote: "`",
		// INSERT IGNORE would also swallow values that are cut off and references that
		// do not hold, and the count of ON DUPLICATE KEY UPDATE does not tell a new row
		// from an old one. A duplicate key undoes its statement only, never the
		// transaction, so the plain INSERT may fail.
		ignoresError: true,
		classify:     classifyMySQL,
		tokens: map[string]string{
			"now":           "CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)",
			"for update":    "FOR UPDATE",
			"for share":     share,
			"for key share": share,
			"skip locked":   "SKIP LOCKED",
			"insert ignore": "INSERT INTO",
			"ignore":        "",
			"serial":        "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
			"text":          "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
			"bytes":         "LONGBLOB",
			"table":         " ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
			"clustered":     " ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		},
	}
}

// Codes of the server, as MySQL 8, MariaDB and TiDB document them.
const (
	mysqlTableExists  = 1050
	mysqlColumnExists = 1060
	mysqlIndexExists  = 1061
)

func classifyMySQL(err error) Class {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch e.Number {
		case 1062, 1586: // duplicate entry
			return ClassUnique
		case 1216, 1217, 1451, 1452: // a reference to or from a row
			return ClassReference
		case 1205, 3572: // lock wait timeout (undoes the statement only), NOWAIT
			return ClassLockWait
		case 1213, 1020, // deadlock, snapshot outrun (MariaDB)
			1206, 1637, // no room for another lock, or for another transaction
			1412, 1615, // a migration changed the table meanwhile
			3101,                   // group replication rolled it back at COMMIT
			9007, 8028, 8002, 8022: // TiDB: write conflict, schema changed, conflict of a lock or at COMMIT
			return ClassRetry
		case 1021, 1114: // disk full, table full
			return ClassFull
		case 1040, 1203, 1226, 1135, // no connection left
			1042, 1043, 1045, 1049, 1129, 1130, // not let in: a password that changed, say
			1047,             // a Galera node that is not ready
			1290, 1792, 1836, // read only, where the driver did not drop the connection for it
			1053, 1077, 1079, // shutdown
			1152, 1158, 1159, 1160, 1161, 1184, 1927, // connection lost or killed
			3169, 4031, // session killed, idle too long; not 1317, which kills a query only
			2006, 2013: // gone away, lost (proxies pass them on)
			return ClassConn
		}
		return ClassOther
	}
	for _, broken := range []error{mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer} {
		if errors.Is(err, broken) {
			return ClassConn
		}
	}
	if brokenConn(err) {
		return ClassConn
	}
	return ClassOther
}
