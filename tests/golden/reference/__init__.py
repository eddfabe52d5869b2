"""What becomes of a frame by the letter of the RFCs, to judge what a node makes of it.

Written from the RFCs alone and in the plainest way: every checksum is computed
anew where a node repairs it by the difference, and a frame is taken apart again
for each question. The `check` of a case says in a few lines what its node is
meant to do, and everything that came out has to be what follows from that.

    dissect     a frame taken apart, and what is wrong with it
    checksum    the Internet checksum
    translate   other addresses in an IP packet
    fragment    an IPv4 packet in fragments
    icmp        errors and echo replies
    lwaftr      the border function of lightweight 4over6
    nat         a translator of addresses and ports
    iphc        a decompressor of IP headers
    node        routed and transparent ports, and a node between them
    compare     what came out, next to what should have
"""
