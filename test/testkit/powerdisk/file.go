package powerdisk

import (
	"math/rand/v2"
	"time"
)

const pageBytes = 4096

// file is what a file holds now, and what of that a cut may take back.
type file struct {
	mode  uint32
	mtime time.Time
	size  int64
	// pages are what was written; a page that is missing is a hole.
	pages map[int64][]byte

	// synced are the pages as they were at the last sync, of those that changed since,
	// nil for a hole. length is the size then.
	synced map[int64][]byte
	length int64
}

func newFile(mode uint32) *file {
	return &file{mode: mode, mtime: time.Now(), pages: map[int64][]byte{}, synced: map[int64][]byte{}}
}

// keep notes a page before its first change since the last sync.
func (f *file) keep(n int64) {
	if _, kept := f.synced[n]; !kept {
		f.synced[n] = f.pages[n]
	}
}

// put replaces a page; nil makes a hole.
func (f *file) put(n int64, page []byte) {
	if page == nil {
		delete(f.pages, n)
	} else {
		f.pages[n] = page
	}
}

func (f *file) write(data []byte, at int64) {
	f.mtime = time.Now()
	f.size = max(f.size, at+int64(len(data)))
	for len(data) > 0 {
		n, from := at/pageBytes, at%pageBytes
		f.keep(n)
		// A page of its own: the one that was is part of what is synced.
		page := make([]byte, pageBytes)
		copy(page, f.pages[n])
		took := copy(page[from:], data)
		f.put(n, page)
		data, at = data[took:], at+int64(took)
	}
}

// read fills b, which is within the file.
func (f *file) read(b []byte, at int64) int {
	b = b[:max(0, min(int64(len(b)), f.size-at))]
	for done := 0; done < len(b); {
		n, from := (at+int64(done))/pageBytes, (at+int64(done))%pageBytes
		part := b[done:min(len(b), done+int(pageBytes-from))]
		clear(part)
		if page := f.pages[n]; page != nil {
			copy(part, page[from:])
		}
		done += len(part)
	}
	return len(b)
}

func (f *file) truncate(size int64) {
	f.mtime = time.Now()
	if size < f.size {
		f.drop(size)
	}
	f.size = size
}

// drop forgets what lies behind a size.
func (f *file) drop(size int64) {
	for n, page := range f.pages {
		if at := n * pageBytes; at+pageBytes > size {
			f.keep(n)
			f.put(n, nil)
			if at < size {
				f.put(n, append(append(make([]byte, 0, pageBytes), page[:size-at]...), make([]byte, pageBytes-(size-at))...))
			}
		}
	}
}

func (f *file) sync() {
	clear(f.synced)
	f.length = f.size
}

// nextData and nextHole are where data or a hole begins, from a place on; -1 without data.
func (f *file) nextData(at int64) int64 {
	next := int64(-1)
	for n := range f.pages {
		if end := (n + 1) * pageBytes; end > at && n*pageBytes < f.size && (next < 0 || n*pageBytes < next) {
			next = n * pageBytes
		}
	}
	if next < 0 {
		return -1
	}
	return max(at, next)
}

func (f *file) nextHole(at int64) int64 {
	for n := at / pageBytes; n*pageBytes < f.size; n++ {
		if f.pages[n] == nil {
			return max(at, n*pageBytes)
		}
	}
	return f.size
}

// cut decides about each page and the length; what is left is synced.
func (f *file) cut(random *rand.Rand, mood mood) (lost int) {
	size := mood.size(random, f.length, f.size)
	shrunk := f.size < f.length && size > f.size
	for n, old := range f.synced {
		// What a truncation removed is there again with the length.
		if removed := shrunk && (n+1)*pageBytes > f.size; removed || !mood.keepsPage(random) {
			f.put(n, old)
			lost++
			continue
		}
		if mood.tearsPage(random) {
			f.put(n, tornPage(random, old, f.pages[n]))
			lost++
		}
	}
	f.size = size
	f.drop(size)
	f.sync()
	return lost
}

// tornPage is a page of which the disk wrote only the beginning, or only the end.
func tornPage(random *rand.Rand, old, page []byte) []byte {
	mixed, at := make([]byte, pageBytes), random.IntN(pageBytes)
	first, second := page, old
	if random.IntN(2) == 0 {
		first, second = old, page
	}
	if first != nil {
		copy(mixed[:at], first)
	}
	if second != nil {
		copy(mixed[at:], second[at:])
	}
	return mixed
}

// mood is one kind of power cut: how many of 100 unsynced changes the disk keeps, and how many of these it wrote only in
// part.
type mood struct{ keptPercent, tornPercent int }

// moods are the kinds of power cuts: the disk keeps none of the unsynced changes, some, or all.
var moods = []mood{{0, 0}, {10, 20}, {50, 0}, {50, 30}, {90, 10}, {100, 0}, {100, 50}}

func (m mood) keepsPage(random *rand.Rand) bool { return random.IntN(100) < m.keptPercent }
func (m mood) tearsPage(random *rand.Rand) bool { return random.IntN(100) < m.tornPercent }

// size is the length after a cut: the old one, the new one, or for a file that grew
// some between them.
func (m mood) size(random *rand.Rand, old, size int64) int64 {
	switch {
	case size > old && m.tearsPage(random):
		return old + random.Int64N(size-old+1)
	case m.keepsPage(random):
		return size
	default:
		return old
	}
}
