#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""layout.py OUT.c HEADER...: a C program that prints what the headers declare, as JSON: sizes and
offsets of all fields of all structs and values of
all constants. Prototypes are read by the test itself."""
import os
import re
import sys

IDENTIFIER = r"[A-Za-z_]\w*"


def strip(text):
    """Without comments and line continuations."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL).replace("\\\n", " ")


def fields(body):
    """The names of a struct's fields; those of anonymous unions are the struct's."""
    for line in re.sub(r"union\s*{|}", " ", body).split(";"):
        line = line.strip()
        if not line:
            continue
        found = re.fullmatch(rf"[\w\s*]*?({IDENTIFIER})\s*(\[[^\]]*\])?", line)
        if not found:
            sys.exit(f"layout.py does not understand the field '{line}'")
        yield found.group(1)


def parse(text):
    """(structs, enums, macros, prototypes) of a header."""
    structs = {name: list(fields(body)) for name, body in
               re.findall(rf"^struct ({IDENTIFIER}) {{(.*?)^}};", text, re.DOTALL | re.MULTILINE)}
    enums = {name: re.findall(rf"({IDENTIFIER})\s*(?:=[^,}}]*)?(?:,|$)", body.strip()) for name, body in
             re.findall(rf"^enum ({IDENTIFIER}) {{(.*?)^}};", text, re.DOTALL | re.MULTILINE)}
    macros = [name for name in re.findall(rf"^#define ({IDENTIFIER})[ \t]+\S", text, re.MULTILINE)
              if name not in ("NVMFR_API", "NVMFR_MUST_CHECK")]
    prototypes = {}
    for result, name, arguments in re.findall(
            rf"^NVMFR_API (?:NVMFR_MUST_CHECK )?([\w ]+[ *]+?)\*?({IDENTIFIER})\(([^;]*)\);", text,
            re.MULTILINE):
        words = [" ".join(a.split()) for a in arguments.split(",")]
        prototypes[name] = [result.strip(), [w for w in words if w != "void"]]
    if len(re.findall(r"^(?:struct|enum)\b[^;(]*{", text, re.MULTILINE)) != len(structs) + len(enums):
        sys.exit("layout.py does not find every struct and enum")
    if text.count("NVMFR_API") - text.count("define NVMFR_API") != len(prototypes):
        sys.exit("layout.py does not find every prototype")
    return structs, enums, macros, prototypes


def declared(headers):
    """What parse() finds in all of the headers."""
    structs, enums, macros, prototypes = {}, {}, [], {}
    for header in headers:
        with open(header, encoding="utf-8") as file:
            found = parse(strip(file.read()))
        structs.update(found[0])
        enums.update(found[1])
        macros += found[2]
        prototypes.update(found[3])
    if not (structs and enums and macros and prototypes):
        sys.exit("layout.py: the headers do not look as they did")
    return structs, enums, macros, prototypes


def program(headers):
    """The C program's text."""
    lines = ["#include <nvmfr/cmd.h>", "#include <nvmfr/soft.h>", "#include <stdio.h>",
             "int main(void)", "{", '\tprintf("{");']
    structs, enums, macros, _ = declared(headers)
    lines.append('\tprintf("\\"structs\\": {");')
    for number, (name, members) in enumerate(structs.items()):
        comma = ", " if number else ""
        lines.append(f'\tprintf("{comma}\\"{name}\\": {{\\"size\\": %zu, \\"align\\": %zu, \\"fields\\": {{",'
                     f" sizeof(struct {name}), _Alignof(struct {name}));")
        for index, member in enumerate(members):
            comma = ", " if index else ""
            lines.append(f'\tprintf("{comma}\\"{member}\\": [%zu, %zu]", offsetof(struct {name}, {member}),'
                         f" sizeof(((struct {name} *)0)->{member}));")
        lines.append('\tprintf("}}");')
    lines.append('\tprintf("}, \\"enums\\": {");')
    for number, (name, members) in enumerate(enums.items()):
        comma = ", " if number else ""
        lines.append(f'\tprintf("{comma}\\"{name}\\": {{");')
        for index, member in enumerate(members):
            comma = ", " if index else ""
            lines.append(f'\tprintf("{comma}\\"{member}\\": %lld", (long long){member});')
        lines.append('\tprintf("}");')
    lines.append('\tprintf("}, \\"macros\\": {");')
    for index, name in enumerate(macros):
        comma = ", " if index else ""
        # A string prints itself, a number its value.
        lines.append(f'\tprintf(_Generic(({name}), char *: "{comma}\\"{name}\\": \\"%s\\"", '
                     f'default: "{comma}\\"{name}\\": %lld"), '
                     f"_Generic(({name}), char *: ({name}), default: (long long)({name})));")
    lines += ['\tprintf("}}\\n");', "\treturn 0;", "}", ""]
    return "\n".join(lines)


def main():
    out, headers = sys.argv[1], sys.argv[2:]
    with open(out, "w", encoding="utf-8") as file:
        file.write("/* SPDX-License-Identifier: BSD-3-Clause */\n/* Made by "
                   + os.path.basename(__file__) + " */\n" + program(headers))


if __name__ == "__main__":
    main()
