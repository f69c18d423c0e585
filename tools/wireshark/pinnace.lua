-- Loads the dissectors of Pinnace's protocols: tshark -X lua_script:pinnace.lua

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or ""
for _, name in ipairs({ "zcrp", "a1", "vrp", "xtp36", "xtp40_udp" }) do
  dofile(here .. name .. ".lua")
end
