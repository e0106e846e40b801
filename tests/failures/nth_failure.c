/* Lets the n-th call of one function fail, as a full disk or no memory would: for LD_PRELOAD.
 *
 *   FAIL_CALL=write|fsync|rename|mmap|malloc|send   which
 *   FAIL_AT=n        the n-th call fails; FAIL_COUNT=k: and the k-1 after it (default 1)
 *   FAIL_PATH=text   only files whose name has it (write, fsync, rename)
 *   FAIL_ABOVE=n     only sizes above it (malloc, mmap)
 *   FAIL_TOLD=file   one byte is appended for each failure
 *   FAIL_GATE=file   nothing fails while this does not exist
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *call_, *path_, *told_, *gate_;
static long at_, count_, above_;
static atomic_long calls_;
static int ready_;

static long number_of(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
  call_ = getenv("FAIL_CALL");
  path_ = getenv("FAIL_PATH");
  told_ = getenv("FAIL_TOLD");
  gate_ = getenv("FAIL_GATE");
  at_ = number_of("FAIL_AT", 0);
  count_ = number_of("FAIL_COUNT", 1);
  above_ = number_of("FAIL_ABOVE", 0);
  ready_ = call_ != NULL && at_ > 0;
}

static int path_fits(int fd, const char* name) {
  char link[64], target[512];
  ssize_t size;
  if (!path_) return 1;
  if (name) return strstr(name, path_) != NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  size = readlink(link, target, sizeof target - 1);
  if (size <= 0) return 0;
  target[size] = 0;
  return strstr(target, path_) != NULL;
}

/* Whether this call fails. `name`: null: by descriptor; `fd` below 0: by neither. */
static int fails(const char* call, int fd, const char* name) {
  long number;
  int told, kept = errno;
  if (!ready_ || strcmp(call, call_) != 0) return 0;
  if ((fd >= 0 || name) && !path_fits(fd, name)) {
    errno = kept;
    return 0;
  }
  if (gate_ && syscall(SYS_access, gate_, F_OK) != 0) {
    errno = kept;
    return 0;
  }
  number = atomic_fetch_add(&calls_, 1) + 1;
  if (number < at_ || number >= at_ + count_) return 0;
  if (told_ && (told = (int)syscall(SYS_openat, AT_FDCWD, told_, O_WRONLY | O_CREAT | O_APPEND, 0600)) >= 0) {
    syscall(SYS_write, told, "x", (size_t)1);
    syscall(SYS_close, told);
  }
  return 1;
}


ssize_t write(int fd, const void* data, size_t size) {
  if (fails("write", fd, NULL)) {
    /* As a disk that fills up: a part of it may be written. */
    if (size > 1 && path_) syscall(SYS_write, fd, data, size / 2);
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_write, fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  if (fails("write", fd, NULL)) return errno = ENOSPC, -1;
  return syscall(SYS_pwrite64, fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) { return pwrite(fd, data, size, offset); }
ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (fails("write", fd, NULL)) return errno = ENOSPC, -1;
  return syscall(SYS_writev, fd, parts, count);
}
int fsync(int fd) {
  if (fails("fsync", fd, NULL)) return errno = EIO, -1;
  return (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd) {
  if (fails("fsync", fd, NULL)) return errno = EIO, -1;
  return (int)syscall(SYS_fdatasync, fd);
}
int rename(const char* from, const char* to) {
  if (fails("rename", -1, to)) return errno = ENOSPC, -1;
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  if ((long)size > above_ && fails("mmap", -1, NULL)) return errno = ENOMEM, MAP_FAILED;
  return (void*)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) {
  return mmap(at, size, protection, flags, fd, offset);
}
ssize_t send(int fd, const void* data, size_t size, int flags) {
  if (fails("send", -1, NULL)) return errno = ECONNRESET, -1;
  return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}
ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  if (fails("send", -1, NULL)) return errno = ECONNRESET, -1;
  return syscall(SYS_sendmsg, fd, message, flags);
}

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
void* malloc(size_t size) {
  if (ready_ && (long)size > above_ && fails("malloc", -1, NULL)) return errno = ENOMEM, NULL;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  if (ready_ && (long)(count * size) > above_ && fails("malloc", -1, NULL)) return errno = ENOMEM, NULL;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  if (ready_ && (long)size > above_ && fails("malloc", -1, NULL)) return errno = ENOMEM, NULL;
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  if (ready_ && (long)size > above_ && fails("malloc", -1, NULL)) return errno = ENOMEM, NULL;
  return __libc_memalign(alignment, size);
}
void* memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
int posix_memalign(void** to, size_t alignment, size_t size) {
  void* memory = aligned_alloc(alignment, size);
  if (!memory) return ENOMEM;
  *to = memory;
  return 0;
}
