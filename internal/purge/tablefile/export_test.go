package tablefile

// Inflate returns what decompresses the blocks of one file.
func Inflate() func(block []byte, limit int64) ([]byte, error) { return (&deflate{}).DecompressBounded }
