/* scratch.c - folders that are gone when their work is done. */
#include "runner/scratch.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/environment.h"

bool kc_scratch_make(char out_path[256]) {
  const char *temp = keel_environment("TMPDIR");
  char whole[PATH_MAX]; /* children work elsewhere */
  if (!temp || !*temp) temp = "/tmp";
  if (realpath(temp, whole)) temp = whole;
  int size = snprintf(out_path, 256, "%s/keel-conformance.XXXXXX", temp);
  if (size < 0 || size >= 256) errno = ENAMETOOLONG;
  if (size > 0 && size < 256 && mkdtemp(out_path)) return true;
  fprintf(stderr,
          "keel-conformance: no temporary folder in %s: %s; set TMPDIR to one"
          " that can be written\n",
          temp, strerror(errno));
  return false;
}

static int remove_one(const char *path, const struct stat *facts, int kind,
                      struct FTW *walk) {
  (void)facts;
  (void)kind;
  (void)walk;
  return remove(path);
}

void kc_scratch_remove(const char *path) {
  nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
