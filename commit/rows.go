package commit

import (
	"errors"
	"fmt"
	"slices"
)

// ErrRows means that stored hashes do not lead to the blob's root, or that its bytes do not lead to
// the stored hashes: some of them are damaged.
var ErrRows = errors.New("commit: the stored hashes and the blob do not agree")

// The roots above a blob's samples are stored in rows, so that a proof hashes no more than the
// chunks that its range has partly. A row of level 0 has the roots of all chunks in 64 chunksets.
// A row of each level above has the roots of 64 rows. The highest level has one row.
const (
	rowHeight = 6
	rowNodes  = 1 << rowHeight
	// RowSize is how many bytes of a blob belong to a row of level 0.
	RowSize = rowNodes * ChunksetSize
	// SmallSize is the size up to which a blob has no rows. A proof hashes all of it, and needs
	// one hash besides.
	SmallSize = ChunkSize
)

// Row is a row of hashes, one after the other.
type Row struct {
	Level  int
	Index  int64
	Hashes []byte
}

// rowsOf returns how many rows a level has.
func rowsOf(size int64, level int) int64 {
	return max(1, ceiling(chunksetsOf(size), 1<<(rowHeight*(level+1))))
}

// Tree has the hashes with which ranges of a blob are proven. It must be used by one goroutine.
type Tree struct {
	Size int64
	Root Root
	// Beside is the root over a chunkset's chunks from the ninth on. Only a blob of at most
	// SmallSize bytes needs it.
	Beside Root
	// Load returns a stored row's hashes. A blob of at most SmallSize bytes has none.
	Load func(level int, index int64) ([]byte, error)

	rows []loadedRow // the last ones, by their levels
}

type rowName struct {
	level int
	index int64
}

type loadedRow struct {
	index int64
	nodes []Root
}

// Tree.Beside is so high above a chunkset's chunks, and this is the first of them.
const (
	besideHeight = 3
	besideFirst  = 1 << besideHeight
)

// Tree returns a tree with the chunksets' chunks. It does not use the other roots, and returns
// ErrRows if there are not as many chunksets as the size needs.
func (c *Commitment) Tree() (*Tree, error) {
	if int64(len(c.Chunksets)) != chunksetsOf(c.Size) {
		return nil, fmt.Errorf("%w: %d chunksets of %d bytes", ErrRows, len(c.Chunksets), c.Size)
	}
	above := map[rowName][]byte{}
	t := &Tree{Size: c.Size, Beside: c.Chunksets[0].Beside()}
	t.Load = func(level int, index int64) ([]byte, error) {
		if level > 0 {
			return above[rowName{level, index}], nil
		}
		return RowOf(c.Chunksets[index*rowNodes : min((index+1)*rowNodes, int64(len(c.Chunksets)))]), nil
	}
	var err error
	t.Root, err = Build(c.Size, t.Load, func(r Row) error {
		above[rowName{r.Level, r.Index}] = r.Hashes
		return nil
	})
	return t, err
}

// Beside returns Tree.Beside of a blob with this chunkset alone.
func (c *Chunkset) Beside() Root {
	return climb(slices.Clone(c.Chunks[besideFirst:]), chunkHeight, besideHeight)
}

// RowOf returns the hashes in the row of level 0 for up to 64 chunksets.
func RowOf(chunksets []Chunkset) []byte {
	hashes := make([]byte, 0, len(chunksets)*chunks*len(Root{}))
	for i := range chunksets {
		for _, root := range chunksets[i].Chunks {
			hashes = append(hashes, root[:]...)
		}
	}
	return hashes
}

// Build returns a blob's root. It loads the rows of level 0 and stores those above them.
func Build(size int64, load func(level int, index int64) ([]byte, error), store func(Row) error) (Root, error) {
	t := Tree{Size: size}
	for level := 0; ; level++ {
		above := Row{Level: level + 1}
		count := rowsOf(size, level)
		for i := range count {
			hashes, err := load(level, i)
			if err != nil {
				return Root{}, err
			}
			nodes, err := t.parse(level, i, hashes)
			if err != nil {
				return Root{}, err
			}
			root := t.rootOf(level, nodes)
			if count == 1 {
				return root, nil
			}
			if above.Hashes = append(above.Hashes, root[:]...); i%rowNodes == rowNodes-1 || i == count-1 {
				above.Index = i / rowNodes
				if err := store(above); err != nil {
					return Root{}, err
				}
				above.Hashes = nil
			}
		}
	}
}

// parse returns a row's nodes.
func (t *Tree) parse(level int, index int64, hashes []byte) ([]Root, error) {
	count := min(chunksetsOf(t.Size)-index*rowNodes, rowNodes) * chunks
	if level > 0 {
		count = min(rowsOf(t.Size, level-1)-index*rowNodes, rowNodes)
	}
	if int64(len(hashes)) != count*int64(len(Root{})) {
		return nil, fmt.Errorf("%w: row %d of level %d has %d bytes", ErrRows, index, level, len(hashes))
	}
	nodes := make([]Root, count)
	for i := range nodes {
		nodes[i] = Root(hashes[i*len(Root{}):])
	}
	return nodes, nil
}

// rootOf returns a row's root, or the blob's if it is the highest row.
func (t *Tree) rootOf(level int, nodes []Root) Root {
	height := rowHeight
	if rowsOf(t.Size, level) == 1 {
		height = heightOf(chunksetsOf(t.Size)) - rowHeight*level
	}
	return climbRow(level, nodes, height)
}

// climbRow returns the node that is so many levels above a row's nodes. In level 0 the height
// counts from the chunksets.
func climbRow(level int, nodes []Root, height int) Root {
	if level == 0 {
		return climb(slices.Clone(nodes), chunkHeight, chunksetHeight+height)
	}
	return climb(slices.Clone(nodes), len(zeros), height)
}

// row returns a row's nodes after it has verified them against the row above, or the root.
func (t *Tree) row(level int, index int64) ([]Root, error) {
	for len(t.rows) <= level {
		t.rows = append(t.rows, loadedRow{index: -1})
	}
	if t.rows[level].index == index {
		return t.rows[level].nodes, nil
	}
	want := t.Root
	if rowsOf(t.Size, level) > 1 {
		above, err := t.row(level+1, index/rowNodes)
		if err != nil {
			return nil, err
		}
		want = above[index%rowNodes]
	}
	hashes, err := t.Load(level, index)
	if err != nil {
		return nil, err
	}
	nodes, err := t.parse(level, index, hashes)
	if err != nil {
		return nil, err
	}
	if t.rootOf(level, nodes) != want {
		return nil, fmt.Errorf("%w: row %d of level %d", ErrRows, index, level)
	}
	t.rows[level] = loadedRow{index, nodes}
	return nodes, nil
}

// node returns the node of height h that is the i-th on its level, above the chunksets.
func (t *Tree) node(h int, i int64) (Root, error) {
	level := h / rowHeight
	up := h % rowHeight
	first := i << up
	nodes, err := t.row(level, first/rowNodes)
	if err != nil {
		return Root{}, err
	}
	each := int64(1)
	if level == 0 {
		each = chunks
	}
	return climbRow(level, nodes[first%rowNodes*each:min((first%rowNodes+1<<up)*each, int64(len(nodes)))], up), nil
}

// chunksOf returns the roots of a chunkset's chunks.
func (t *Tree) chunksOf(chunkset int64) ([]Root, error) {
	nodes, err := t.row(0, chunkset/rowNodes)
	if err != nil {
		return nil, err
	}
	return nodes[chunkset%rowNodes*chunks:][:chunks], nil
}
