package snapfile

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// imageWriter writes one image file. After the first error it does nothing.
type imageWriter struct {
	file vfs.File
	off  int64
	crc  uint32 // of the content, when all is written
	err  error
	rest func() // see Images.Rest
}

// put writes in pieces: a system call of 1 MB takes 2 ms where the system must find memory for the file.
func (w *imageWriter) put(b []byte) {
	for part := range slices.Chunk(b, 64<<10) {
		if w.err != nil {
			return
		}
		_, w.err = w.file.WriteAt(part, w.off)
		w.off += int64(len(part))
		if w.rest != nil {
			w.rest()
		}
	}
}

func (w *imageWriter) write(h format.ImageHeader, parts [][]byte) {
	var length uint64
	for _, p := range parts {
		length += uint64(len(p))
	}
	header := format.AppendImageHeader(nil, &h, length)
	w.err = w.file.Preallocate(format.ImageSize(length, format.ImageChunkLen))
	w.put(header)
	table := make([]byte, 0, 4*format.ChunkCount(length, format.ImageChunkLen)+format.ImageFooterLen)
	crc, n := uint32(0), 0 // of the chunk so far, and its bytes
	for _, p := range parts {
		w.put(p)
		for len(p) > 0 {
			m := min(len(p), format.ImageChunkLen-n)
			crc = crc32.Update(crc, format.Castagnoli, p[:m])
			p, n = p[m:], n+m
			if n == format.ImageChunkLen {
				table = binary.LittleEndian.AppendUint32(table, crc)
				crc, n = 0, 0
			}
		}
	}
	if n > 0 {
		table = binary.LittleEndian.AppendUint32(table, crc)
	}
	end := binary.LittleEndian.AppendUint64(table, uint64(format.ImageSize(length, format.ImageChunkLen)))
	end = append(end, format.ImageEndMagic...)
	w.crc = crc32.Update(format.Checksum(header), format.Castagnoli, end)
	w.put(binary.LittleEndian.AppendUint32(end, w.crc))
}
