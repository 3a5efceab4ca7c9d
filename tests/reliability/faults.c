/* Make system calls on the files of one folder fail, or shift the clock, as environment variables say.

   FAULT_FOLDER  only files below it are concerned
   FAULT_CALL    write, fallocate, truncate, sync, map, open or rename
   FAULT_ERRNO   number of the error
   FAULT_AFTER   calls that succeed before the first failure
   FAULT_COUNT   calls that fail; all further ones succeed
   FAULT_SHIFT   seconds by which the clock of the day jumps after FAULT_AFTER readings

   Compile: cc -shared -fPIC -O1 -o faults.so faults.c -ldl; run a program with LD_PRELOAD=faults.so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static long calls;

static long number(const char *name, long fallback) {
    const char *text = getenv(name);
    return text ? atol(text) : fallback;
}

static int is_inside(const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int fails(const char *call, const char *path) {
    const char *wanted = getenv("FAULT_CALL");
    if (!wanted || strcmp(wanted, call) != 0 || !is_inside(path)) return 0;
    long index = __sync_fetch_and_add(&calls, 1), after = number("FAULT_AFTER", 0);
    if (index < after || index >= after + number("FAULT_COUNT", 1000000000)) return 0;
    errno = (int)number("FAULT_ERRNO", EIO);
    return 1;
}

static int fails_on(const char *call, int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(call, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *data, size_t count) {
    return fails_on("write", file) ? -1 : REAL(write)(file, data, count);
}
ssize_t pwrite(int file, const void *data, size_t count, off_t offset) {
    return fails_on("write", file) ? -1 : REAL(pwrite)(file, data, count, offset);
}
ssize_t pwrite64(int file, const void *data, size_t count, off64_t offset) {
    return fails_on("write", file) ? -1 : REAL(pwrite64)(file, data, count, offset);
}
int posix_fallocate(int file, off_t offset, off_t length) {
    return fails_on("fallocate", file) ? errno : REAL(posix_fallocate)(file, offset, length);
}
int posix_fallocate64(int file, off64_t offset, off64_t length) {
    return fails_on("fallocate", file) ? errno : REAL(posix_fallocate64)(file, offset, length);
}
int ftruncate(int file, off_t length) { return fails_on("truncate", file) ? -1 : REAL(ftruncate)(file, length); }
int ftruncate64(int file, off64_t length) { return fails_on("truncate", file) ? -1 : REAL(ftruncate64)(file, length); }
int fsync(int file) { return fails_on("sync", file) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fails_on("sync", file) ? -1 : REAL(fdatasync)(file); }
void *mmap(void *start, size_t length, int protection, int flags, int file, off_t offset) {
    return file >= 0 && fails_on("map", file) ? MAP_FAILED : REAL(mmap)(start, length, protection, flags, file, offset);
}
void *mmap64(void *start, size_t length, int protection, int flags, int file, off64_t offset) {
    return file >= 0 && fails_on("map", file) ? MAP_FAILED
                                              : REAL(mmap64)(start, length, protection, flags, file, offset);
}
int rename(const char *from, const char *to) { return fails("rename", to) ? -1 : REAL(rename)(from, to); }

#define OPEN(name)                                                      \
    int name(const char *path, int flags, ...) {                        \
        va_list arguments;                                              \
        va_start(arguments, flags);                                     \
        mode_t mode = va_arg(arguments, mode_t);                        \
        va_end(arguments);                                              \
        int writes = (flags & O_ACCMODE) != O_RDONLY;                   \
        return writes && fails("open", path) ? -1 : REAL(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

int clock_gettime(clockid_t clock, struct timespec *now) {
    static long readings;
    int result = REAL(clock_gettime)(clock, now);
    long shift = number("FAULT_SHIFT", 0);
    if (clock == CLOCK_REALTIME && shift && __sync_fetch_and_add(&readings, 1) >= number("FAULT_AFTER", 0))
        now->tv_sec += shift;
    return result;
}
