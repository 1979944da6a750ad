package claycode_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"sluice/claycode"
	"sluice/test/testenv"
)

// vectors are encodings by the public client's code; testdata/clay.json describes them.
type vectors struct {
	Encodings []struct {
		N, K, D     int
		Size        int      `json:"chunk_size"`
		Seed        uint64   `json:"seed"`
		DataSHA256  string   `json:"data_sha256"`
		ChunkSHA256 []string `json:"chunk_sha256"`
	}
	Impulses []struct {
		Input struct {
			Chunk, Plane, Column int
			Value                byte
		}
		Outputs [][3]int `json:"nonzero_outputs_chunk_plane_value"`
	}
	Decodes [][]int
	Repair  []struct {
		Lost    int
		Planes  []int
		Helpers []struct {
			Chunk, Bytes int
			SHA256       string
		}
		RecoveredSHA256 string `json:"recovered_sha256"`
	}
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile("testdata/clay.json"))(t), &v))
	if len(v.Encodings) != 4 || len(v.Impulses) != 8 || len(v.Decodes) != 8 || len(v.Repair) != 3 {
		t.Fatal("the vectors are incomplete")
	}
	return v
}

// generated returns bytes from the vectors' generator sha256ctr.
func generated(seed uint64, size int) []byte {
	var data []byte
	for j := uint64(0); len(data) < size; j++ {
		block := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, seed), j)
		sum := sha256.Sum256(block)
		data = append(data, sum[:]...)
	}
	return data[:size]
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// chunksOf returns chunks without parity.
func chunksOf(n, k, size int, data []byte) [][]byte {
	chunks := make([][]byte, n)
	for i := range chunks {
		chunks[i] = make([]byte, size)
		if i < k {
			copy(chunks[i], data[i*size:])
		}
	}
	return chunks
}

// TestVectors checks encodings and decodings against the public client's.
// Invariant 219.
func TestVectors(t *testing.T) {
	v := readVectors(t)
	for _, e := range v.Encodings {
		code := testenv.Must(claycode.New(e.N, e.K, e.D))(t)
		data := generated(e.Seed, e.K*e.Size)
		testenv.Equal(t, hexSum(data), e.DataSHA256, "data of seed %d", e.Seed)
		chunks := chunksOf(e.N, e.K, e.Size, data)
		testenv.OK(t, code.Encode(chunks))
		for i, chunk := range chunks {
			testenv.Equal(t, hexSum(chunk), e.ChunkSHA256[i], "chunk %d of (%d, %d, %d) with %d bytes", i, e.N, e.K, e.D, e.Size)
		}
		if e.N != 16 {
			continue
		}
		for _, lost := range v.Decodes {
			restored := damaged(chunks, lost)
			testenv.OK(t, code.Decode(restored, lost...))
			for i, chunk := range restored {
				testenv.Equal(t, hexSum(chunk), e.ChunkSHA256[i], "chunk %d restored without %v", i, lost)
			}
		}
	}
}

// TestVectorsOfImpulses checks which parity bytes depend on a single data byte, and by which
// factor.
// Invariant 219.
func TestVectorsOfImpulses(t *testing.T) {
	code := testenv.Must(claycode.New(16, 10, 13))(t)
	const plane = 32
	for _, impulse := range readVectors(t).Impulses {
		in := impulse.Input
		chunks := chunksOf(16, 10, plane*256, make([]byte, 10*plane*256))
		chunks[in.Chunk][in.Plane*plane+in.Column] = in.Value
		testenv.OK(t, code.Encode(chunks))
		var outputs [][3]int
		for i := 10; i < 16; i++ {
			for at, value := range chunks[i] {
				if value != 0 {
					testenv.Equal(t, at%plane, in.Column, "column")
					outputs = append(outputs, [3]int{i, at / plane, int(value)})
				}
			}
		}
		var terms [][3]int
		for _, term := range code.Terms(in.Chunk, in.Plane) {
			value := make([]byte, 1)
			term.Times([]byte{in.Value}, value)
			terms = append(terms, [3]int{term.Chunk, term.Plane, int(value[0])})
		}
		if !slices.Equal(outputs, impulse.Outputs) || !slices.Equal(terms, impulse.Outputs) {
			t.Errorf("the impulse %+v gives %v and the terms %v, want %v", in, outputs, terms, impulse.Outputs)
		}
	}
}

// TestVectorsOfRepairs checks which planes helpers send, their bytes, and the repaired chunk.
// Invariants 219, 220.
func TestVectorsOfRepairs(t *testing.T) {
	v := readVectors(t)
	e := v.Encodings[0]
	code := testenv.Must(claycode.New(e.N, e.K, e.D))(t)
	chunks := chunksOf(e.N, e.K, e.Size, generated(e.Seed, e.K*e.Size))
	testenv.OK(t, code.Encode(chunks))
	for _, r := range v.Repair {
		if planes := code.RepairPlanes(r.Lost); !slices.Equal(planes, r.Planes) {
			t.Errorf("the repair of chunk %d reads %v, want %v", r.Lost, planes, r.Planes)
		}
		var helpers []int
		for _, h := range r.Helpers {
			helpers = append(helpers, h.Chunk)
			var sent []byte
			for _, z := range r.Planes {
				sent = append(sent, chunks[h.Chunk][z*32:(z+1)*32]...)
			}
			testenv.Equal(t, hexSum(sent), h.SHA256, "planes of helper %d", h.Chunk)
		}
		restored, read := repair(t, code, chunks, r.Lost, helpers)
		testenv.Equal(t, hexSum(restored), r.RecoveredSHA256, "chunk %d", r.Lost)
		testenv.Equal(t, read, len(restored)*13/4, "bytes read")
	}
}
