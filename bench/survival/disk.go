package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Disk is an ext4 on a loop device, whose power can fail.
type Disk struct {
	image, dir string
}

// diskSize bounds what a run can write on a node. The image is sparse.
const diskSize = 2 << 30

// NewDisk makes and mounts a file system below temp.
func NewDisk(temp, name string) (*Disk, error) {
	d := &Disk{image: filepath.Join(temp, name+".img"), dir: filepath.Join(temp, name)}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(diskSize); err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func (d *Disk) mount() error   { return command("mount", "-o", "loop", d.image, d.dir) }
func (d *Disk) unmount() error { return command("umount", d.dir) }

// Of linux/fs.h and fs/ext4/ext4.h: FS_IOC_SHUTDOWN is _IOR('X', 125, __u32).
const (
	fsIocShutdown = 0x8004587d
	noLogFlush    = 2 // EXT4_GOING_FLAGS_NOLOGFLUSH: write neither dirty pages nor the journal
)

// PowerOff stops the file system. Every operation on it fails from now on.
func (d *Disk) PowerOff() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fsIocShutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return fmt.Errorf("shut down %s: %w", d.dir, errno)
	}
	return nil
}

// PowerOn mounts the file system again. REQUIRES that no process has files open on it.
//
// While anything else on the machine still holds the old mount, for instance a copy of it in another mount namespace, the kernel gives the
// file system that was shut down again, and every operation fails. PowerOn then tries again.
func (d *Disk) PowerOn() error {
	for try := 0; ; try++ {
		if err := d.unmount(); err != nil {
			return err
		}
		if err := d.mount(); err != nil {
			return err
		}
		_, err := os.ReadDir(d.dir)
		if err == nil || try == powerOnTries {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// powerOnTries are 10 s.
const powerOnTries = 100

// FlipBit flips one bit of the largest file that chosen accepts, at that part of its length. It says which bit.
func (d *Disk) FlipBit(at float64, chosen func(path string) bool) (string, error) {
	var largest string
	var size int64
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if chosen(path) && info.Size() > size {
			largest, size = path, info.Size()
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if largest == "" {
		return "", fmt.Errorf("%s has no file with records", d.dir)
	}
	f, err := os.OpenFile(largest, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var one [1]byte
	offset := int64(float64(size) * at)
	// A log is allocated ahead, and nobody reads the zeros at its end. So the bit is flipped in bytes that were written.
	for ; offset > 0; offset /= 2 {
		if _, err := f.ReadAt(one[:], offset); err != nil {
			return "", err
		}
		if one[0] != 0 {
			break
		}
	}
	one[0] ^= 1 << 3
	if _, err := f.WriteAt(one[:], offset); err != nil {
		return "", err
	}
	return fmt.Sprintf("bit 3 of byte %d of %s (%d bytes)", offset, strings.TrimPrefix(largest, d.dir+"/"), size), f.Sync()
}

// Remove unmounts the file system and deletes it.
func (d *Disk) Remove() {
	_ = d.unmount() // it may be unmounted already
	os.Remove(d.image)
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
