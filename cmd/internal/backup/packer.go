package backup

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// packer compresses the bytes that are read through it.
type packer struct {
	*io.PipeReader
	n int64
}

// compressed compresses r by zstd. Log shrinks to a third or less, images and cold files hardly: they are dense.
func compressed(r io.Reader) *packer {
	out, in := io.Pipe()
	go func() {
		z, err := zstd.NewWriter(in, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
		if err == nil {
			_, err = io.Copy(z, r)
			err = errors.Join(err, z.Close())
		}
		in.CloseWithError(err)
	}()
	return &packer{PipeReader: out}
}

func (p *packer) Read(b []byte) (int, error) {
	n, err := p.PipeReader.Read(b)
	p.n += int64(n)
	return n, err
}
