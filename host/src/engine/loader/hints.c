/* hints.c - remedies for messages of the dynamic linker. */
#include "loader/loader.h"

/* The first whose part the text has is the right one. The texts are glibc's, which is not
 * translated here: the linker speaks before a program sets a language. */
static const struct {
  const char *part, *hint;
} hints[] = {
    {"in static TLS block",
     "the plugin, or a library that it needs, wants more of the memory that the"
     " linker keeps for threads' variables: set"
     " GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536 or more, or ask its"
     " vendor to build it without -ftls-model=initial-exec"},
    {"libc.musl-",
     "it was built for musl: use the vendor's build for this system's C"
     " library"},
    {"libc.so: ",
     "it was built for musl: use the vendor's build for this system's C"
     " library"},
    {"libc.so.6: cannot open",
     "it was built for glibc: use the vendor's build for this system's C"
     " library"},
    {"position-independent executable",
     "it is a program: link the plugin with -shared"},
    {"failed to map segment",
     "its folder may be mounted noexec, or a policy forbids execution there: "
     "copy it to another folder"},
    {"executable stack",
     "ask its vendor to link it with -z noexecstack: this system does not "
     "allow an executable stack"},
    {"for relocation",
     "ask its vendor to build it with -fPIC: this system does not let code be"
     " changed"},
    {"after relocation",
     "ask its vendor to build it with -fPIC: this system does not let code be"
     " changed"},
    {"undefined symbol",
     "a library that it needs is of another version than it was built with, or"
     " it was linked without it; `ldd -r` shows which symbols are missing"},
    {"' not found (required by",
     "it was built with a newer library than the one here: use the vendor's"
     " build for this system, or install the newer library"},
    {"ISA level",
     "it was built for a newer processor: use the vendor's build for this one"},
    {"wrong ELF class",
     "a library that it needs is for another machine: install the one for this"
     " machine; `ldd` shows which file was taken"},
    {"invalid ELF header",
     "a library that it needs is not a library: install it again; `ldd` shows "
     "which"
     " file was taken"},
    {"file too short",
     "a library that it needs is not whole: install it again; `ldd` shows which"
     " file was taken"},
    {"Permission denied",
     "give this user the right to read the plugin and the libraries that it"
     " needs"},
    {"cannot open shared object file",
     "install the missing library; `ldd -r` shows it"},
};

const char *keel_linker_hint(const char *text) {
  for (size_t i = 0; i < KEEL_COUNT_OF(hints); i++)
    if (strstr(text, hints[i].part)) return hints[i].hint;
  return "`ldd -r` may say more; otherwise ask the plugin's vendor";
}
