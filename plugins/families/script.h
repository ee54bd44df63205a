/* script.h - what a device was told to do, in a file, to be done again without Keel:
 * for a driver's maker who is to see what goes wrong, and for benchmarks beside the
 * raw API. The option "script" names the file.
 * What is recorded stands in it once, where it was recorded; launches of recordings
 * don't.
 *
 * A script is words of 64 bits, little-endian, after the eight bytes "KEELFAM1".
 * Records begin with one of the letters below, and go on with words; bytes are padded
 * to whole words. Buffers are their addresses in the process, and may come again with
 * another size:
 *
 *   S  number, size, source                     a kernel's, in the plugin's language
 *   L  source, groups, items of a group, count and bytes of the parameters, count of
 *      buffers; of each: buffer, its size, offset                          a launch
 *   I  buffer, its size, offset, size, bytes                 a copy from the host
 *   O  buffer, its size, offset, size                          a copy to the host
 *   C  two buffers (each: buffer, its size, offset), size     a copy between them
 *   F  buffer, its size, offset, size, count and bytes of a pattern       a fill
 *   R                                                 a run of a plan begins here */
#ifndef KEEL_FAMILIES_SCRIPT_H
#define KEEL_FAMILIES_SCRIPT_H

#include "families/record.h"

typedef struct fam_script fam_script;
struct fam_driver;

/* NULL in *out_script where the option is not set. Returns KD_OK, or why the file
 * can't be written. One device at a time has the file. */
kd_status fam_script_open(const kd_host *host, fam_script **out_script);
#define FAM_SCRIPT_OPTION                                                 \
  OPTION("script", NULL, NULL,                                            \
         "A file that gets all that the device is told to do; one device" \
         " at a time.")
/* Says whether all could be written. */
void fam_script_close(fam_script *script);

/* `pass` is a launch's. */
void fam_script_add(fam_script *script, const struct fam_driver *driver,
                    const fam_command *command, const fam_pass *pass);
void fam_script_run(fam_script *script);

#endif /* KEEL_FAMILIES_SCRIPT_H */
