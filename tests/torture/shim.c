/*
 * Asks before each change of a file below a folder, and tells when it is done.
 *
 * Loaded by LD_PRELOAD into Python, the JVM and their children alike. A change is a creation, a write, a rename, a link,
 * a removal, a new length. For each one it connects to the Unix socket in RS_TORTURE_SOCKET, sends "kind\npath\npath\n",
 * waits for a byte, makes the change, sends its result, and waits for a byte again. The one who listens lets one change
 * go at a time: so changes of all threads and processes come one after the other, and what lies on the disk between two
 * of them is just what a SIGKILL there would leave.
 *
 * Or, with a file in RS_TORTURE_GATE instead: each change takes one from the first number in it and adds one to the second;
 * once the first is used up, every change fails with EIO. So the disk stays as it is at that point, for all processes.
 *
 * Without RS_TORTURE_ROOT nothing happens. Whoever calls the kernel without libc is not seen; the recorder compares the
 * whole folder at the end to find that out.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_FILES 65536
#define MESSAGE (2 * PATH_MAX + 64)

static char root[PATH_MAX], place[sizeof(((struct sockaddr_un *)0)->sun_path)];
static size_t root_length;
static struct gate {
    _Atomic int64_t left, asked;
} *gate;
/* What `ask` returns: nobody listens, or the change must not be. */
enum { NOBODY = -1, REFUSED = -2 };
/* Whether a file was opened for writing below the root; stale entries are told by the name that the kernel has. */
static atomic_char written[MOST_FILES];

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("RS_TORTURE_ROOT"), *socket_path = getenv("RS_TORTURE_SOCKET");
    const char *gate_path = getenv("RS_TORTURE_GATE");

    if (folder == NULL || strlen(folder) >= sizeof root)
        return;
    if (gate_path != NULL) {
        int file = open(gate_path, O_RDWR | O_CLOEXEC);
        gate = mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (file < 0 || gate == MAP_FAILED)
            abort();
        close(file);
    } else if (socket_path != NULL && strlen(socket_path) < sizeof place)
        strcpy(place, socket_path);
    else
        return;
    strcpy(root, folder);
    root_length = strlen(root);
}

static void *original(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}

#define ORIGINAL(result, name, ...)                                                                                    \
    static result (*real)(__VA_ARGS__);                                                                                \
    if (real == NULL)                                                                                                  \
        real = original(name)

/* The whole path of what a call names, in `out`; 0 if it does not lie below the root. */
static int whole(int folder, const char *path, char *out)
{
    char link[64];
    ssize_t length = 0;

    if (root_length == 0 || path == NULL)
        return 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD)
            strcpy(link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        length = readlink(link, out, PATH_MAX - 2);
        if (length < 0 || (size_t)length + strlen(path) + 2 > PATH_MAX)
            return 0;
        out[length++] = '/';
    } else if (strlen(path) >= PATH_MAX)
        return 0;
    strcpy(out + length, path);
    return strncmp(out, root, root_length) == 0 && out[root_length] == '/';
}

/* The path of an open file, if it was opened for writing below the root. */
static int whole_of(int file, char *out)
{
    char link[64];
    ssize_t length;

    if (root_length == 0 || file < 0 || file >= MOST_FILES || !written[file])
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, out, PATH_MAX - 1);
    if (length < 0)
        return 0;
    out[length] = 0;
    return strncmp(out, root, root_length) == 0 && out[root_length] == '/';
}

/* Ask to make a change; returns the connection, NOBODY if nobody listens (any more), or REFUSED. */
static int ask(const char *kind, const char *path, const char *other)
{
    int saved = errno, connection;
    char message[MESSAGE], answer;
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (gate != NULL) {
        atomic_fetch_add(&gate->asked, 1);
        return atomic_fetch_sub(&gate->left, 1) <= 0 ? REFUSED : NOBODY;
    }
    strcpy(address.sun_path, place);
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0)
        goto gone;
    while (connect(connection, (struct sockaddr *)&address, sizeof address) != 0)
        if (errno != EINTR && errno != EAGAIN)
            goto gone;
    snprintf(message, sizeof message, "%s\n%s\n%s\n", kind, path, other);
    if (send(connection, message, strlen(message), MSG_NOSIGNAL) < 0)
        goto gone;
    while (recv(connection, &answer, 1, 0) < 0)
        if (errno != EINTR)
            goto gone;
    errno = saved;
    return connection;
gone:
    if (connection >= 0)
        close(connection);
    errno = saved;
    return NOBODY;
}

/* Tell that the change was made, and wait until it was seen. */
static void tell(int connection, int done)
{
    int saved = errno;
    char answer = done ? '1' : '0';

    if (connection < 0)
        return;
    if (send(connection, &answer, 1, MSG_NOSIGNAL) == 1)
        while (recv(connection, &answer, 1, 0) < 0 && errno == EINTR)
            ;
    close(connection);
    errno = saved;
}

#define ASKED(result, inside, kind, path, other, call, failure)                                                        \
    do {                                                                                                               \
        int connection_ = (inside) ? ask(kind, path, other) : NOBODY;                                                  \
        if (connection_ == REFUSED) {                                                                                  \
            errno = EIO;                                                                                               \
            result = failure;                                                                                          \
        } else {                                                                                                       \
            result = call;                                                                                             \
            tell(connection_, result != failure);                                                                      \
        }                                                                                                              \
    } while (0)

/* Opening a file: what creates it or cuts it is a change. */

static int opened(int file, int flags, int inside)
{
    if (inside && file >= 0 && file < MOST_FILES && (flags & O_ACCMODE) != O_RDONLY)
        written[file] = 1;
    return file;
}

static int needs_mode(int flags)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name, folder, arguments, call, types)                                                                     \
    int name arguments                                                                                                 \
    {                                                                                                                  \
        ORIGINAL(int, #name, types);                                                                                   \
        char path[PATH_MAX];                                                                                           \
        mode_t mode = 0;                                                                                               \
        int file, inside;                                                                                              \
        if (needs_mode(flags)) {                                                                                       \
            va_list more;                                                                                              \
            va_start(more, flags);                                                                                     \
            mode = va_arg(more, mode_t);                                                                               \
            va_end(more);                                                                                              \
        }                                                                                                              \
        inside = (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0 && whole(folder, file_name, path);             \
        ASKED(file, inside && (flags & (O_CREAT | O_TRUNC)) != 0, "create", path, "", call, -1);                       \
        return opened(file, flags, inside);                                                                            \
    }

#define COMMA ,
OPEN(open, AT_FDCWD, (const char *file_name, int flags, ...), real(file_name, flags, mode), const char * COMMA int COMMA ...)
OPEN(open64, AT_FDCWD, (const char *file_name, int flags, ...), real(file_name, flags, mode), const char * COMMA int COMMA ...)
OPEN(openat, at, (int at, const char *file_name, int flags, ...), real(at, file_name, flags, mode), int COMMA const char * COMMA int COMMA ...)
OPEN(openat64, at, (int at, const char *file_name, int flags, ...), real(at, file_name, flags, mode), int COMMA const char * COMMA int COMMA ...)

#define CREAT(name)                                                                                                    \
    int name(const char *file_name, mode_t mode)                                                                       \
    {                                                                                                                  \
        ORIGINAL(int, #name, const char *, mode_t);                                                                    \
        char path[PATH_MAX];                                                                                           \
        int file, inside = whole(AT_FDCWD, file_name, path);                                                           \
        ASKED(file, inside, "create", path, "", real(file_name, mode), -1);                                            \
        return opened(file, O_WRONLY, inside);                                                                         \
    }
CREAT(creat)
CREAT(creat64)

/* The C library writes into its own buffers, which are not seen: only that the file is there. */
#define FOPEN(name)                                                                                                    \
    FILE *name(const char *file_name, const char *how)                                                                 \
    {                                                                                                                  \
        ORIGINAL(FILE *, #name, const char *, const char *);                                                           \
        char path[PATH_MAX];                                                                                           \
        FILE *file;                                                                                                    \
        int inside = (how[0] == 'w' || how[0] == 'a') && whole(AT_FDCWD, file_name, path);                             \
        ASKED(file, inside, "create", path, "", real(file_name, how), NULL);                                           \
        return file;                                                                                                   \
    }
FOPEN(fopen)
FOPEN(fopen64)

/* Names. */

#define ONE(name, kind, folder, arguments, call, ...)                                                                  \
    int name arguments                                                                                                 \
    {                                                                                                                  \
        ORIGINAL(int, #name, __VA_ARGS__);                                                                             \
        char path[PATH_MAX];                                                                                           \
        int result;                                                                                                    \
        ASKED(result, whole(folder, file_name, path), kind, path, "", call, -1);                                       \
        return result;                                                                                                 \
    }
ONE(unlink, "delete", AT_FDCWD, (const char *file_name), real(file_name), const char *)
ONE(remove, "delete", AT_FDCWD, (const char *file_name), real(file_name), const char *)
ONE(rmdir, "rmdir", AT_FDCWD, (const char *file_name), real(file_name), const char *)
ONE(unlinkat, flags & AT_REMOVEDIR ? "rmdir" : "delete", at, (int at, const char *file_name, int flags),
    real(at, file_name, flags), int, const char *, int)
ONE(mkdir, "mkdir", AT_FDCWD, (const char *file_name, mode_t mode), real(file_name, mode), const char *, mode_t)
ONE(mkdirat, "mkdir", at, (int at, const char *file_name, mode_t mode), real(at, file_name, mode), int, const char *,
    mode_t)
ONE(truncate, "write", AT_FDCWD, (const char *file_name, off_t length), real(file_name, length), const char *, off_t)
ONE(truncate64, "write", AT_FDCWD, (const char *file_name, off64_t length), real(file_name, length), const char *,
    off64_t)

#define TWO(name, kind, from, to, arguments, call, ...)                                                                \
    int name arguments                                                                                                 \
    {                                                                                                                  \
        ORIGINAL(int, #name, __VA_ARGS__);                                                                             \
        char path[PATH_MAX] = "", other[PATH_MAX] = "";                                                                \
        int result, inside = whole(from, old_name, path);                                                              \
        inside = whole(to, new_name, other) || inside;                                                                 \
        ASKED(result, inside, kind, path, other, call, -1);                                                            \
        return result;                                                                                                 \
    }
TWO(rename, "rename", AT_FDCWD, AT_FDCWD, (const char *old_name, const char *new_name), real(old_name, new_name),
    const char *, const char *)
TWO(renameat, "rename", from, to, (int from, const char *old_name, int to, const char *new_name),
    real(from, old_name, to, new_name), int, const char *, int, const char *)
TWO(renameat2, "rename", from, to, (int from, const char *old_name, int to, const char *new_name, unsigned flags),
    real(from, old_name, to, new_name, flags), int, const char *, int, const char *, unsigned)
TWO(link, "link", AT_FDCWD, AT_FDCWD, (const char *old_name, const char *new_name), real(old_name, new_name),
    const char *, const char *)
TWO(linkat, "link", from, to, (int from, const char *old_name, int to, const char *new_name, int flags),
    real(from, old_name, to, new_name, flags), int, const char *, int, const char *, int)
TWO(symlinkat, "link", AT_FDCWD, to, (const char *old_name, int to, const char *new_name),
    real(old_name, to, new_name), const char *, int, const char *)
TWO(symlink, "link", AT_FDCWD, AT_FDCWD, (const char *old_name, const char *new_name), real(old_name, new_name),
    const char *, const char *)

/* Contents. */

#define CONTENT(result_type, name, file, arguments, call, ...)                                                         \
    result_type name arguments                                                                                         \
    {                                                                                                                  \
        ORIGINAL(result_type, #name, __VA_ARGS__);                                                                     \
        char path[PATH_MAX];                                                                                           \
        result_type result;                                                                                            \
        ASKED(result, whole_of(file, path), "write", path, "", call, -1);                                              \
        return result;                                                                                                 \
    }
CONTENT(ssize_t, write, file, (int file, const void *data, size_t size), real(file, data, size), int, const void *,
        size_t)
CONTENT(ssize_t, pwrite, file, (int file, const void *data, size_t size, off_t at), real(file, data, size, at), int,
        const void *, size_t, off_t)
CONTENT(ssize_t, pwrite64, file, (int file, const void *data, size_t size, off64_t at), real(file, data, size, at),
        int, const void *, size_t, off64_t)
CONTENT(ssize_t, writev, file, (int file, const struct iovec *parts, int count), real(file, parts, count), int,
        const struct iovec *, int)
CONTENT(ssize_t, pwritev, file, (int file, const struct iovec *parts, int count, off_t at),
        real(file, parts, count, at), int, const struct iovec *, int, off_t)
CONTENT(ssize_t, pwritev64, file, (int file, const struct iovec *parts, int count, off64_t at),
        real(file, parts, count, at), int, const struct iovec *, int, off64_t)
CONTENT(ssize_t, copy_file_range, file, (int in, off64_t *from, int file, off64_t *to, size_t size, unsigned flags),
        real(in, from, file, to, size, flags), int, off64_t *, int, off64_t *, size_t, unsigned)
CONTENT(ssize_t, sendfile, file, (int file, int in, off_t *from, size_t size), real(file, in, from, size), int, int,
        off_t *, size_t)
CONTENT(ssize_t, sendfile64, file, (int file, int in, off64_t *from, size_t size), real(file, in, from, size), int,
        int, off64_t *, size_t)
CONTENT(int, ftruncate, file, (int file, off_t length), real(file, length), int, off_t)
CONTENT(int, ftruncate64, file, (int file, off64_t length), real(file, length), int, off64_t)
