/* load.c -- loads the library and says whether a thread was started, a file left open or a signal handled by that. */
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

static int entries(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static int handled(int sig) {
  struct sigaction a;
  return !sigaction(sig, NULL, &a) && a.sa_handler != SIG_DFL;
}

int main(int argc, char **argv) {
  int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) return printf("%s\n", dlerror()), 1;
  int (*version)(void) = 0;
  *(void **)&version = dlsym(library, "weft_version");
  if (!version || version() < 100) return printf("it has no version\n"), 1;
  printf("%d threads before, %d after; %d files before, %d after\n", threads, entries("/proc/self/task"), files, entries("/proc/self/fd"));
  return entries("/proc/self/task") != threads || entries("/proc/self/fd") != files || handled(SIGBUS) || handled(SIGSEGV) || dlclose(library);
}
