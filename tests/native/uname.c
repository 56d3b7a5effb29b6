/* For LD_PRELOAD: the machine's architecture, kernel release and node name as the profile has them. */
#define _GNU_SOURCE

#include "stub.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

API int uname(struct utsname *out) {
    if (syscall(SYS_uname, out) != 0) return -1;
    snprintf(out->machine, sizeof out->machine, "%s", stub_text("host.arch", strdupa(out->machine)));
    snprintf(out->release, sizeof out->release, "%s", stub_text("host.kernel", strdupa(out->release)));
    snprintf(out->nodename, sizeof out->nodename, "%s", stub_text("host.node", strdupa(out->nodename)));
    return 0;
}

/* glibc's own gethostname() does not pass through the replaced uname(). */
API int gethostname(char *name, size_t size) {
    struct utsname machine;
    if (uname(&machine) != 0) return -1;
    if (strlen(machine.nodename) >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(name, machine.nodename);
    return 0;
}
