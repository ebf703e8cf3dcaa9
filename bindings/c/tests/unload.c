/*
 * Loads the library named by the argument, and unloads it: it stays loaded, because of its threads. Exits
 * with 0 and prints "ok".
 */

#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (library == NULL || dlclose(library) != 0) {
        fprintf(stderr, "cannot be loaded: %s\n", dlerror());
        return 1;
    }
    if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) == NULL) {
        fprintf(stderr, "was unloaded\n");
        return 1;
    }
    printf("ok\n");
    return 0;
}
