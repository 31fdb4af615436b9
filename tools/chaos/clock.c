// Sets the clock of single processes: preloaded into them, it adds an offset to the time of day and to nothing else.
//
// $CHAOS_CLOCKS is a folder. The offsets are seconds, as 64-bit integers: that in `all` counts for every process, that
// in a file named after a process id for it and those that it forks. Waits until a time of day are moved back by as
// much; other waits and the clocks that cannot be set are left as they are.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define TIME_OF_DAY 1000000000  // seconds: clocks that count from the start of the machine are far below

static volatile int64_t none;
static volatile int64_t *all = &none, *own = &none;

static volatile int64_t *mapped(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(int64_t)) != 0) return &none;
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return found == MAP_FAILED ? &none : found;
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("CHAOS_CLOCKS");
    char name[32];
    if (folder == NULL) return;
    snprintf(name, sizeof name, "%d", (int)getpid());
    all = mapped(folder, "all");
    own = mapped(folder, name);
}

static int64_t offset(void) { return *all + *own; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
    return result;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now != NULL) *now = found.tv_sec;
    return found.tv_sec;
}

static struct timespec until(const struct timespec *deadline) {
    struct timespec moved = *deadline;
    if (moved.tv_sec > TIME_OF_DAY) moved.tv_sec -= offset();
    return moved;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (real == NULL) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (real == NULL) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec moved = until(deadline);
    return real(condition, mutex, &moved);
}

// That of C11, by which librdkafka waits.
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *deadline) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (real == NULL) real = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec moved = until(deadline);
    return real(condition, mutex, &moved);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *deadline) {
    static int (*real)(sem_t *, const struct timespec *);
    if (real == NULL) real = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec moved = until(deadline);
    return real(semaphore, &moved);
}
