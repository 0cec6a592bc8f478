package testbed

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/bits"
	"strconv"
)

// PageReader returns the first n bytes of an HTML page without end, generated while it is read.
//
// The bytes are the same on every machine and for every n, so a short page is a prefix of a longer one. They
// compress like a real page, about 2.8 to 1 from 64 KiB upwards and less below, whatever the coding: words repeat as
// words of a language do, no fragment is tiled. The reader holds some 40 KiB whatever n is. It also implements io.WriterTo.
func PageReader(n int64) io.Reader { return SeededPageReader(n, 0) }

// SeededPageReader is [PageReader] for the page of this seed: pages of different seeds have no text in common, so
// that two bodies of one length can be told apart. Seed 0 is the page of PageReader.
func SeededPageReader(n, seed int64) io.Reader {
	return &page{left: max(n, 0), rnd: random{hi: uint64(seed), lo: 0x9e3779b97f4a7c15}}
}

// Page writes the first n bytes of the page to w.
func Page(n int64, w io.Writer) error {
	_, err := io.Copy(w, PageReader(n))
	return err
}

// PageSum is the SHA-256 of the first n bytes of the page, in hexadecimal.
func PageSum(n int64) string { return pageSum(n, 0) }

func pageSum(n, seed int64) string {
	h := sha256.New()
	_, _ = io.Copy(h, SeededPageReader(n, seed)) // neither side can fail
	return hex.EncodeToString(h.Sum(nil))
}

// page generates one article at a time into buf and hands it out.
type page struct {
	left    int64
	rnd     random
	buf     []byte // generated
	off     int    // handed out
	article int
}

func (p *page) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.next())
	p.take(n)
	return n, nil
}

func (p *page) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for p.left > 0 {
		n, err := w.Write(p.next())
		p.take(n)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (p *page) take(n int) {
	p.off += n
	p.left -= int64(n)
}

// next returns what is generated, not handed out yet and within the page's length.
func (p *page) next() []byte {
	if p.off == len(p.buf) {
		p.buf, p.off = p.buf[:0], 0
		if p.article == 0 {
			p.buf = append(p.buf, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Page</title>\n"...)
		}
		for len(p.buf) < 32<<10 {
			p.generate()
		}
	}
	b := p.buf[p.off:]
	if int64(len(b)) > p.left {
		b = b[:p.left]
	}
	return b
}

// generate appends one article: a heading, paragraphs with links and emphasis, and a table of figures now and then.
func (p *page) generate() {
	p.article++
	b, r := p.buf, &p.rnd
	b = append(b, "<article id=\"a"...)
	b = strconv.AppendUint(b, r.next()>>40, 36)
	b = append(b, "\" class=\""...)
	b = appendWord(b, r.below(64))
	b = append(b, "\">\n<h2>"...)
	b = appendSentence(b, r, 3+r.below(5))
	b = append(b, "</h2>\n"...)
	for range 2 + r.below(4) {
		b = append(b, "<p>"...)
		for range 2 + r.below(4) {
			b = appendSentence(b, r, 6+r.below(14))
			b = append(b, '.', ' ')
		}
		b = append(b, "</p>\n"...)
	}
	if r.below(3) == 0 {
		b = append(b, "<table>\n"...)
		for range 2 + r.below(6) {
			b = append(b, "<tr><td>"...)
			b = appendWord(b, r.rank())
			b = append(b, "</td><td>"...)
			b = strconv.AppendUint(b, r.next()>>47, 10)
			b = append(b, "</td></tr>\n"...)
		}
		b = append(b, "</table>\n"...)
	}
	p.buf = append(b, "</article>\n"...)
}

func appendSentence(b []byte, r *random, words int) []byte {
	for i := range words {
		if i > 0 {
			b = append(b, ' ')
		}
		switch r.below(40) {
		case 0:
			b = append(b, "<a href=\"/"...)
			b = appendWord(b, r.below(256))
			b = append(b, '/')
			b = strconv.AppendUint(b, r.next()>>44, 16)
			b = append(b, "\">"...)
			b = appendWord(b, r.rank())
			b = append(b, "</a>"...)
		case 1:
			b = append(b, "<em>"...)
			b = appendWord(b, r.rank())
			b = append(b, "</em>"...)
		default:
			b = appendWord(b, r.rank())
		}
	}
	return b
}

// vocabulary is the number of words of the page's language.
const vocabulary = 2048

// appendWord appends the word of this rank. The frequent ones, of low rank, are short.
func appendWord(b []byte, rank int) []byte {
	const syllables = "thanerinonatesorisitalmedelocoraneveritomahuseclipofubagrwedykejovu"
	h := uint32(rank+1) * 2654435761
	count := 1 + bits.Len(uint(rank))/4
	for range count {
		i := (h >> 27) * 2
		b = append(b, syllables[i], syllables[i+1])
		h = h*1664525 + 1013904223
	}
	if h&0x4000000 != 0 {
		b = append(b, "snrtd"[h>>29%5])
	}
	return b
}

// random is a generator of the page's choices: splitmix64 over a counter that the seed moves.
type random struct{ hi, lo uint64 }

func (r *random) next() uint64 {
	r.lo += 0x9e3779b97f4a7c15
	z := r.lo ^ bits.RotateLeft64(r.hi*0xd6e8feb86659fd93, 32)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n).
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// rank returns the rank of a word: low ranks are far more frequent than high ones, as in a language.
func (r *random) rank() int {
	z := r.next()
	u, v, w := z&0x1fffff, z>>21&0x1fffff, z>>42&0x1fffff
	return int(u * v >> 21 * w >> 21 * vocabulary >> 21)
}
