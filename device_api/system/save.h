/* save.h - writes every file: whole, or not at all.
 *
 * The data go to a file without a name in the folder of `path` or, on a file system that has
 * no such files, to a file with a temporary name. `keel_save_end` puts the new file in the
 * place of the old one in one step: other processes see the old file or the new one, any
 * number of them may write to one path, and an error leaves the old file as it was.
 *
 * The new file has the old one's mode, and its owner and group as far as this process may
 * give them. Links are followed. A path that is not a regular file (a device, a pipe), or that
 * this process has open as standard output or error, is written into. */
#ifndef KEEL_SAVE_H
#define KEEL_SAVE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

typedef struct keel_save {
  FILE *file; /* the caller writes here; the file cannot be sought in */
  int fd, folder;
  int error;       /* errno of the first write that failed, or 0 */
  char name[256];  /* in the folder */
  char fresh[256]; /* a name of its own, "" while it has none */
  struct stat old; /* what it replaces */
  bool replaces;   /* there was a file */
  bool made;       /* ... which was made here, behind a link that led nowhere */
  bool in_place;   /* not a regular file */
} keel_save;

/* Begins; `mode` is what a file gets that was not there, less the umask. False: errno says
 * why, and there is nothing to end. `save` stays where it is until it is ended. */
bool keel_save_begin(keel_save *save, const char *path, mode_t mode);

/* Ends: the file takes its place, or, where `keep` is false, nothing has happened. False:
 * it could not be written whole; errno says why, and the old file is as it was. */
bool keel_save_end(keel_save *save, bool keep);

#endif /* KEEL_SAVE_H */
