package local

// Walk makes the bucket resolve paths as on a system without a call for it.
func (b *Bucket) Walk() { b.root.resolve = walk }
