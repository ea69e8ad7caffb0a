// Lists of a thread's registers, from %0 on, because inline PTX of wgmma needs them spelled out. AT_WGMMA_R<b> are their names,
// and AT_WGMMA_C<b>(c) their operands d[0], d[1], ... under constraint c. Each list has b + 1 blocks of eight; a list with an h
// has b blocks and a half.
#pragma once

#define AT_WGMMA_R0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define AT_WGMMA_R1 AT_WGMMA_R0 "," "%8,%9,%10,%11,%12,%13,%14,%15"
#define AT_WGMMA_R2 AT_WGMMA_R1 "," "%16,%17,%18,%19,%20,%21,%22,%23"
#define AT_WGMMA_R3 AT_WGMMA_R2 "," "%24,%25,%26,%27,%28,%29,%30,%31"
#define AT_WGMMA_R4 AT_WGMMA_R3 "," "%32,%33,%34,%35,%36,%37,%38,%39"
#define AT_WGMMA_R5 AT_WGMMA_R4 "," "%40,%41,%42,%43,%44,%45,%46,%47"
#define AT_WGMMA_R6 AT_WGMMA_R5 "," "%48,%49,%50,%51,%52,%53,%54,%55"
#define AT_WGMMA_R7 AT_WGMMA_R6 "," "%56,%57,%58,%59,%60,%61,%62,%63"
#define AT_WGMMA_R8 AT_WGMMA_R7 "," "%64,%65,%66,%67,%68,%69,%70,%71"
#define AT_WGMMA_R9 AT_WGMMA_R8 "," "%72,%73,%74,%75,%76,%77,%78,%79"
#define AT_WGMMA_R10 AT_WGMMA_R9 "," "%80,%81,%82,%83,%84,%85,%86,%87"
#define AT_WGMMA_R11 AT_WGMMA_R10 "," "%88,%89,%90,%91,%92,%93,%94,%95"
#define AT_WGMMA_R12 AT_WGMMA_R11 "," "%96,%97,%98,%99,%100,%101,%102,%103"
#define AT_WGMMA_R13 AT_WGMMA_R12 "," "%104,%105,%106,%107,%108,%109,%110,%111"
#define AT_WGMMA_R14 AT_WGMMA_R13 "," "%112,%113,%114,%115,%116,%117,%118,%119"
#define AT_WGMMA_R15 AT_WGMMA_R14 "," "%120,%121,%122,%123,%124,%125,%126,%127"
#define AT_WGMMA_R0h "%0,%1,%2,%3"
#define AT_WGMMA_R1h AT_WGMMA_R0 "," "%8,%9,%10,%11"
#define AT_WGMMA_R2h AT_WGMMA_R1 "," "%16,%17,%18,%19"
#define AT_WGMMA_R3h AT_WGMMA_R2 "," "%24,%25,%26,%27"
#define AT_WGMMA_R4h AT_WGMMA_R3 "," "%32,%33,%34,%35"
#define AT_WGMMA_R5h AT_WGMMA_R4 "," "%40,%41,%42,%43"
#define AT_WGMMA_R6h AT_WGMMA_R5 "," "%48,%49,%50,%51"
#define AT_WGMMA_R7h AT_WGMMA_R6 "," "%56,%57,%58,%59"
#define AT_WGMMA_FOUR(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define AT_WGMMA_EIGHT(c, i) AT_WGMMA_FOUR(c, i), AT_WGMMA_FOUR(c, i + 4)
#define AT_WGMMA_C0(c) AT_WGMMA_EIGHT(c, 0)
#define AT_WGMMA_C1(c) AT_WGMMA_C0(c), AT_WGMMA_EIGHT(c, 8)
#define AT_WGMMA_C2(c) AT_WGMMA_C1(c), AT_WGMMA_EIGHT(c, 16)
#define AT_WGMMA_C3(c) AT_WGMMA_C2(c), AT_WGMMA_EIGHT(c, 24)
#define AT_WGMMA_C4(c) AT_WGMMA_C3(c), AT_WGMMA_EIGHT(c, 32)
#define AT_WGMMA_C5(c) AT_WGMMA_C4(c), AT_WGMMA_EIGHT(c, 40)
#define AT_WGMMA_C6(c) AT_WGMMA_C5(c), AT_WGMMA_EIGHT(c, 48)
#define AT_WGMMA_C7(c) AT_WGMMA_C6(c), AT_WGMMA_EIGHT(c, 56)
#define AT_WGMMA_C8(c) AT_WGMMA_C7(c), AT_WGMMA_EIGHT(c, 64)
#define AT_WGMMA_C9(c) AT_WGMMA_C8(c), AT_WGMMA_EIGHT(c, 72)
#define AT_WGMMA_C10(c) AT_WGMMA_C9(c), AT_WGMMA_EIGHT(c, 80)
#define AT_WGMMA_C11(c) AT_WGMMA_C10(c), AT_WGMMA_EIGHT(c, 88)
#define AT_WGMMA_C12(c) AT_WGMMA_C11(c), AT_WGMMA_EIGHT(c, 96)
#define AT_WGMMA_C13(c) AT_WGMMA_C12(c), AT_WGMMA_EIGHT(c, 104)
#define AT_WGMMA_C14(c) AT_WGMMA_C13(c), AT_WGMMA_EIGHT(c, 112)
#define AT_WGMMA_C15(c) AT_WGMMA_C14(c), AT_WGMMA_EIGHT(c, 120)
#define AT_WGMMA_C0h(c) AT_WGMMA_FOUR(c, 0)
#define AT_WGMMA_C1h(c) AT_WGMMA_C0(c), AT_WGMMA_FOUR(c, 8)
#define AT_WGMMA_C2h(c) AT_WGMMA_C1(c), AT_WGMMA_FOUR(c, 16)
#define AT_WGMMA_C3h(c) AT_WGMMA_C2(c), AT_WGMMA_FOUR(c, 24)
#define AT_WGMMA_C4h(c) AT_WGMMA_C3(c), AT_WGMMA_FOUR(c, 32)
#define AT_WGMMA_C5h(c) AT_WGMMA_C4(c), AT_WGMMA_FOUR(c, 40)
#define AT_WGMMA_C6h(c) AT_WGMMA_C5(c), AT_WGMMA_FOUR(c, 48)
#define AT_WGMMA_C7h(c) AT_WGMMA_C6(c), AT_WGMMA_FOUR(c, 56)
