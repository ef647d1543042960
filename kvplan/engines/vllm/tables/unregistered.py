"""Model classes that vLLM doesn't register: those that a plugin loads, that its Transformers backend runs, or that nothing does.

Which classes of Transformers 5.19 pass was found by building each with vLLM 0.33, from the default of its config.
"""

from __future__ import annotations

from kvplan.engines.vllm.tables.versions import Version

PLUGIN = {
    "BartModel": "https://github.com/vllm-project/bart-plugin",
    "BartForConditionalGeneration": "https://github.com/vllm-project/bart-plugin",
    "Florence2ForConditionalGeneration": "https://github.com/vllm-project/bart-plugin",
    "MBartForConditionalGeneration": "https://github.com/vllm-project/bart-plugin",
}
"""Classes that only a plugin loads."""

CROSSES = ("MllamaForConditionalGeneration", "DonutForConditionalGeneration", *PLUGIN)
"""Classes that the first engine (V0, until 0.10) served with caches of encoders, for which there are no rules here."""

RUNS_IN: Version = (0, 33, 0)
"""The release that RUNS and REFUSED were built with; of another one it isn't known."""

RUNS = frozenset(
    [
        "AriaTextForCausalLM",
        "AXK2ForCausalLM",
        "AyaVisionForConditionalGeneration",
        "BioGptForCausalLM",
        "BitNetForCausalLM",
        "CohereCompassForCausalLM",
        "Cosmos3OmniForConditionalGeneration",
        "CTRLLMHeadModel",
        "DeepseekOcr2ForConditionalGeneration",
        "DeepseekVLForConditionalGeneration",
        "DeepseekVLHybridForConditionalGeneration",
        "DogeForCausalLM",
        "Dots1ForCausalLM",
        "Emu3ForCausalLM",
        "FastVlmForConditionalGeneration",
        "FunAsrNanoForConditionalGeneration",
        "FuyuForCausalLM",
        "Gemma4UnifiedForCausalLM",
        "Glm46VForConditionalGeneration",
        "GotOcr2ForConditionalGeneration",
        "HeliumForCausalLM",
        "HyperCLOVAXVisionV2ForConditionalGeneration",
        "Idefics2ForConditionalGeneration",
        "InstructBlipForConditionalGeneration",
        "InstructBlipVideoForConditionalGeneration",
        "JanusForConditionalGeneration",
        "JetMoeForCausalLM",
        "Kimi_K25ForConditionalGeneration",
        "Kosmos2ForConditionalGeneration",
        "Kosmos2_5ForConditionalGeneration",
        "KyutaiSpeechToTextForConditionalGeneration",
        "LightOnOcrForConditionalGeneration",
        "MiniMaxM3VLForCausalLM",
        "MinistralForCausalLM",
        "Mistral4ForCausalLM",
        "ModernBertDecoderForCausalLM",
        "MoshiForCausalLM",
        "MusicFlamingoForConditionalGeneration",
        "NanoChatForCausalLM",
        "Ovis2ForConditionalGeneration",
        "PerceptionLMForConditionalGeneration",
        "PersimmonForCausalLM",
        "Phi4MultimodalForCausalLM",
        "PhimoeForCausalLM",
        "Qwen2_5OmniThinkerForConditionalGeneration",
        "Qwen3OmniMoeThinkerForConditionalGeneration",
        "SolarOpenForCausalLM",
        "VideoLlama3ForConditionalGeneration",
        "VideoLlavaForConditionalGeneration",
        "VipLlavaForConditionalGeneration",
        "VoxtralRealtimeForConditionalGeneration",
        "YoutuForCausalLM",
        "ZayaForCausalLM",
    ]
)
"""Classes that vLLM 0.33 doesn't register and its Transformers backend takes; those of several modalities by their flags
alone."""

REFUSED = {
    "its layers don't use the Transformers library's attention interface": """
        BigBirdForCausalLM BlipForConditionalGeneration CodeGenForCausalLM CpmAntForCausalLM
        FSMTForConditionalGeneration GPTNeoForCausalLM GPTNeoXJapaneseForCausalLM LEDForConditionalGeneration
        MegatronBertForCausalLM MvpForCausalLM MvpForConditionalGeneration OpenAIGPTLMHeadModel ProphetNetForCausalLM
        ProphetNetForConditionalGeneration ReformerModelWithLMHead RemBertForCausalLM RoFormerForCausalLM
        TrOCRForCausalLM XGLMForCausalLM XLMWithLMHeadModel XLNetLMHeadModel""",
    "its decoder takes no positions, which vLLM's Transformers backend gives it": """
        BartForCausalLM BigBirdPegasusForCausalLM BigBirdPegasusForConditionalGeneration BlenderbotForCausalLM
        BlenderbotForConditionalGeneration BlenderbotSmallForCausalLM BlenderbotSmallForConditionalGeneration
        LongT5ForConditionalGeneration M2M100ForConditionalGeneration MBartForCausalLM MT5ForConditionalGeneration
        MarianForCausalLM MarianMTModel NllbMoeForConditionalGeneration PLBartForCausalLM
        PLBartForConditionalGeneration PegasusForCausalLM PegasusForConditionalGeneration
        PegasusXForConditionalGeneration SeamlessM4TForTextToText SeamlessM4Tv2ForTextToText
        SwitchTransformersForConditionalGeneration T5ForConditionalGeneration T5Model UMT5ForConditionalGeneration
        UdopForConditionalGeneration xLSTMForCausalLM""",
    "vLLM's Transformers backend can't run its layers": """
        BltForCausalLM DiffLlamaForCausalLM EvollaForProteinText2Text GitForCausalLM IdeficsForVisionText2Text
        MllamaForCausalLM MllamaForConditionalGeneration PI0ForConditionalGeneration RecurrentGemmaForCausalLM
        RwkvForCausalLM WhisperForCausalLM ZambaForCausalLM""",
    "it encodes: its layers attend both ways and keep no cache": """
        BertGenerationDecoder BertLMHeadModel CamembertForCausalLM Data2VecTextForCausalLM ElectraForCausalLM
        ErnieForCausalLM RoCBertForCausalLM RobertaForCausalLM RobertaPreLayerNormForCausalLM XLMRobertaForCausalLM
        XLMRobertaXLForCausalLM XmodForCausalLM""",
}  # fmt: skip
"""Classes of the Transformers library that vLLM doesn't register and its backend doesn't take, by the reason."""
