package testbed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
)

func TestPageCompressesLikeAPage(t *testing.T) {
	// The bounds that are tight are those of what is claimed: about 2.8 from 64 KiB upwards.
	for _, n := range []int64{64 << 10, 1 << 20} {
		for _, coding := range codingNames() {
			t.Run(fmt.Sprintf("%s_%d", coding, n), func(t *testing.T) {
				var count countWriter
				e, err := newEncoder(coding, &count, 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := Page(n, e); err != nil {
					t.Fatal(err)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				ratio := float64(n) / float64(count)
				t.Logf("%.2f", ratio)
				if ratio < 2.6 || ratio > 3.0 {
					t.Errorf("ratio %.2f, want about 2.8", ratio)
				}
			})
		}
	}
}

func TestPageIsNotTiled(t *testing.T) {
	// No line of text of the first MiB, tags and short ones aside, comes twice.
	var page bytes.Buffer
	if err := Page(1<<20, &page); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range bytes.Lines(page.Bytes()) {
		if len(line) < 80 {
			continue
		}
		if seen[string(line)] {
			t.Fatalf("twice: %s", line)
		}
		seen[string(line)] = true
	}
}

func TestPageIsThePrefixOfALongerOne(t *testing.T) {
	var long bytes.Buffer
	if err := Page(100_000, &long); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, 1, 1023, 1024, 32 << 10, 65_537, 100_000} {
		short, err := io.ReadAll(PageReader(n))
		if err != nil || !bytes.Equal(short, long.Bytes()[:n]) {
			t.Errorf("%d bytes (error %v) are not the first %d of the longer page", len(short), err, n)
		}
		sum := sha256.Sum256(short)
		if PageSum(n) != hex.EncodeToString(sum[:]) {
			t.Errorf("PageSum(%d) is not the sum of the page", n)
		}
	}
	if n, err := io.Copy(io.Discard, PageReader(-1)); n != 0 || err != nil {
		t.Errorf("a page of -1 bytes: %d, %v", n, err)
	}
}

func TestPageReaderContract(t *testing.T) {
	var want bytes.Buffer
	if err := Page(70_001, &want); err != nil {
		t.Fatal(err)
	}
	// TestReader looks for ReadFrom and the like: only Read is under test here.
	if err := iotest.TestReader(struct{ io.Reader }{PageReader(70_001)}, want.Bytes()); err != nil {
		t.Error(err)
	}
}

func TestSeedsDiffer(t *testing.T) {
	sums := make(map[string]int64)
	for seed := int64(-3); seed < 200; seed++ {
		sum := pageSum(1<<10, seed)
		if other, ok := sums[sum]; ok {
			t.Errorf("seeds %d and %d give one page", seed, other)
		}
		sums[sum] = seed
	}
	if pageSum(1<<10, 0) != PageSum(1<<10) {
		t.Error("seed 0 is not the page")
	}
}

func TestPageIsTheSameEverywhere(t *testing.T) {
	// A change of the generator changes what published figures were measured with.
	const want = "0ba4616267a904f489fd37b4f6ad42bd3311faa0983a63255b2b42f4a2a41c7f"
	if got := PageSum(1 << 20); got != want {
		t.Errorf("the first MiB has the sum %s, want %s", got, want)
	}
}

func BenchmarkPage(b *testing.B) {
	b.SetBytes(1 << 20)
	for b.Loop() {
		if err := Page(1<<20, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
